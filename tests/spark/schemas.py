"""Columns of a batch read."""

from __future__ import annotations

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType, TimestampType

SCHEMA = StructType(
    [
        StructField("body", BinaryType()),
        StructField("queue_id", IntegerType()),
        StructField("queue_offset", LongType()),
        StructField("store_timestamp", TimestampType()),
        StructField("sys_flag", IntegerType()),
    ]
)
