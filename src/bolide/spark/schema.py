"""Columns of a message as a row: the schema of `format("rocketmq")`, for Spark and for Arrow.

Every column is nullable: Spark does not check a null in a NOT NULL column in Python and fails in the JVM instead.
"""

from __future__ import annotations

from typing import Final

COLUMNS: Final = """
    topic STRING, broker STRING, queue_id INT, queue_offset BIGINT, body BINARY, tags STRING, keys ARRAY<STRING>,
    properties MAP<STRING, STRING>, born_timestamp TIMESTAMP, store_timestamp TIMESTAMP, born_host STRING,
    store_host STRING, message_id STRING, offset_message_id STRING, flag INT, sys_flag INT, reconsume_times INT
"""
"""Spark's DDL of the source, in order. Bodies are inflated; timestamps have milliseconds."""

WRITE_COLUMNS: Final = (
    "topic",
    "body",
    "tags",
    "keys",
    "properties",
    "delay_level",
    "sharding_key",
    "queue_id",
    "flag",
)
"""Columns the sink understands; only `body` must be there, and `topic` unless the option is set."""
