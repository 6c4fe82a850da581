"""Converts stored messages to messages to resend: keeps their own fields, and drops the fields of their storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bolide.layout import property_names as names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEPT: Final = frozenset({names.SHARDING_KEY, names.BUYER_ID, names.TRACE_CONTEXT})
"""Reserved names that describe the message itself. Other properties (ids, delays, transactions, retries) are new after
a resend. Keys and tags are separate columns."""
DROPPED: Final = tuple(sorted(names.RESERVED - KEPT))

COPIES: Final = {"anyTag": "true"}
"""Write options of a job that resends stored messages, unless its user sets them. Other producers send any tag."""

ORIGIN: Final = "coalesce(properties['DLQ_ORIGIN_TOPIC'], properties['RETRY_TOPIC'])"
"""SQL for the original topic of a dead letter."""


def own_properties(properties: Column) -> Column:
    """Return the properties of a map to resend with a message."""
    from pyspark.sql import functions as f

    return f.map_filter(properties, lambda name, _: ~name.isin(*DROPPED))


def to_send(messages: DataFrame, topic: Column, *more: Column) -> DataFrame:
    """Return rows for the sink with the same body, tags, keys, flag and properties, for another topic."""
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
