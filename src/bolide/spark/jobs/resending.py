"""From a stored message to one that is sent again: what belongs to the message, and what to where it was stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bolide.layout import property_names as names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEPT: Final = frozenset({names.SHARDING_KEY, names.BUYER_ID, names.TRACE_CONTEXT})
"""Reserved names that say something of the message itself. The others (ids, delays, transactions, retries) are told
anew by whoever sends and stores it; keys and tags are columns of their own."""
DROPPED: Final = tuple(sorted(names.RESERVED - KEPT))

ORIGIN: Final = "coalesce(properties['DLQ_ORIGIN_TOPIC'], properties['RETRY_TOPIC'])"
"""SQL for the topic a dead letter came from."""


def own_properties(properties: Column) -> Column:
    """Of a map of properties those that are sent again with a message."""
    from pyspark.sql import functions as f

    return f.map_filter(properties, lambda name, _: ~name.isin(*DROPPED))


def to_send(messages: DataFrame, topic: Column, *more: Column) -> DataFrame:
    """Rows for the sink: the same body, tags, keys, flag and properties, for another topic."""
    from pyspark.sql import functions as f

    return messages.select(
        topic.alias("topic"),
        "body",
        "tags",
        f.array_join("keys", " ").alias("keys"),
        own_properties(f.col("properties")).alias("properties"),
        "flag",
        *more,
    )
