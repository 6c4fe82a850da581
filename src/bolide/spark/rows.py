"""Record bytes to Arrow batches with the source's columns, without a Python loop per message.

Compressed bodies are the exception: each is inflated by itself, bounded as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bolide.layout.columns import RecordColumns, chain_starts
from bolide.layout.sysflag import TRANSACTION_MASK
from bolide.remoting.compression import COMPRESSED_FLAG, decompress_by_flag
from bolide.spark.fetch import EVERY_TAG, RangeReader
from bolide.spark.options import SourceOptions
from bolide.spark.ranges import Range
from bolide.spark.schema import arrow_schema

ROWS_PER_BATCH: Final = 8_192
"""Spark's plateau is between 1,000 and 10,000 rows a batch."""
BYTES_PER_BATCH: Final = 8 * 1024 * 1024
MAX_PLAIN_BODY: Final = 64 * 1024 * 1024
_TRANSACTION_STATES: Final[Any] = pa.array(["none", "prepared", "commit", "rollback"])
"""By the two transaction bits of the sys flag."""


def read_range(
    part: Range, addresses: tuple[str, ...], options: SourceOptions, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The rows of one task, a few thousand at a time; memory does not grow with the range."""
    schema = arrow_schema(columns)
    reader = RangeReader(part, addresses, options)
    try:
        waiting: list[bytes] = []
        size = 0
        since = part.begin
        for body, following in reader.chunks():
            waiting.append(body)
            size += len(body)
            if size >= BYTES_PER_BATCH or following - since >= ROWS_PER_BATCH:
                yield rows(b"".join(waiting), part, options.tags, schema)
                waiting, size, since = [], 0, following
        if waiting:
            yield rows(b"".join(waiting), part, options.tags, schema)
    finally:
        reader.close()


def rows(data: bytes, part: Range, tags: str, schema: pa.Schema) -> pa.RecordBatch:
    """Records back to back as rows. A broker compares tags by their hash only, so the text is compared here."""
    records = RecordColumns(data, chain_starts(data))
    broker = part.queue.broker
    columns = [column_of(records, broker, name).cast(schema.field(name).type) for name in schema.names]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    offsets = records.numbers("queue_offset")
    wanted = (offsets >= part.begin) & (offsets < part.end)
    if tags != EVERY_TAG:
        names = [name.strip() for name in tags.split("||") if name.strip()]
        found: Any = pc.is_in(records.tags, pa.array(names, pa.string()))  # null tags are in no set
        wanted &= found.to_numpy(zero_copy_only=False)
    return batch if bool(wanted.all()) else batch.filter(pa.array(wanted))


def column_of(records: RecordColumns, broker: str | None, name: str) -> Any:
    """One column of the source's schema, in Arrow's own type for it; without a broker's name it is null."""
    if name == "broker":
        return pa.nulls(len(records), pa.string()) if broker is None else pa.repeat(broker, len(records))
    if name == "body":
        return _bodies(records)
    if name == "message_id":
        return pc.coalesce(records.uniq_key, records.column("offset_message_id"))
    if name in ("born_timestamp", "store_timestamp"):
        milliseconds = pa.array(records.numbers(name).astype("datetime64[ms]"))
        return milliseconds.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    if name == "transaction_state":
        bits = (records.numbers("sys_flag") & TRANSACTION_MASK) >> 2
        return _TRANSACTION_STATES.take(pa.array(bits))
    return records.column(name)


def _bodies(records: RecordColumns) -> Any:
    """Bodies as they were sent."""
    flags = records.numbers("sys_flag")
    compressed = np.flatnonzero(flags & COMPRESSED_FLAG)
    if not len(compressed):
        return records.body
    bodies: list[Any] = records.body.to_pylist()
    for index in compressed.tolist():
        bodies[index] = decompress_by_flag(bodies[index], int(flags[index]), MAX_PLAIN_BODY)
    return pa.array(bodies, pa.binary())
