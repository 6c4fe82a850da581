"""The columns of each table of a store folder, and their types in Spark."""

from __future__ import annotations

from typing import Final

from bolide.spark.source.schema import COLUMNS

MESSAGES: Final = "messages"
BAD_RANGES: Final = "bad_ranges"
STRETCHES: Final = "stretches"

TABLES: Final = {
    MESSAGES: {**COLUMNS, "physical_offset": "bigint", "kind": "string"},
    BAD_RANGES: {
        "path": "string", "physical_offset": "bigint", "size": "bigint", "reason": "string", "torn": "boolean",
    },
    STRETCHES: {
        "path": "string", "start": "bigint", "size": "bigint", "begin": "bigint", "end": "bigint", "last": "boolean",
        "known_begin": "boolean", "known_end": "boolean",
    },
    "consume_queue": {
        "topic": "string", "queue_id": "int", "queue_offset": "bigint", "physical_offset": "bigint", "size": "int",
        "tags_code": "bigint",
    },
    "index": {
        "file": "string", "number": "int", "key_hash": "int", "physical_offset": "bigint",
        "store_timestamp": "timestamp", "previous": "int",
    },
    "offsets": {"group": "string", "topic": "string", "queue_id": "int", "queue_offset": "bigint"},
    "topics": {"topic": "string", "read_queues": "int", "write_queues": "int", "perm": "int"},
    "groups": {
        "group": "string", "consume_enable": "boolean", "consume_message_orderly": "boolean", "retry_queues": "int",
        "retry_max_times": "int",
    },
}  # fmt: skip
"""Columns and Spark's types of each value of option `table`."""
