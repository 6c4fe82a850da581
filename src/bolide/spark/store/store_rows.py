"""Converts a stretch of a log to rows: its records as columns, and the bad ranges."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bolide.layout.columns import RecordColumns
from bolide.layout.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from bolide.layout.sysflag import TRANSACTION_MASK, TRANSACTION_PREPARED
from bolide.spark.errors import CorruptStore
from bolide.spark.source.bad_records import BAD_RECORD
from bolide.spark.source.rows import ROWS_PER_BATCH, column_of
from bolide.spark.source.schema import arrow_schema
from bolide.spark.source.sifting import Sifted, sifted
from bolide.spark.store.deleted import alive, marks_of
from bolide.spark.store.log_scan import BadRange, FoundRecords, Stretch, scan
from bolide.spark.store.store_options import columns_of
from bolide.spark.store.store_schema import BAD_RANGES, STRETCHES, TABLES

if TYPE_CHECKING:
    from bolide.spark.store.store_options import StoreReadOptions

_compute: Any = pc  # its stubs lack plain values as scalars
_LOG: Final = logging.getLogger("bolide.spark")


def read_stretch(part: Stretch, options: StoreReadOptions, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a task. Raises `CorruptStore` at the first bad range unless the options skip them."""
    schema = arrow_schema(columns, columns_of(options))
    marks = marks_of(part.path)
    for step in scan(part, options.check_crc):
        if isinstance(step, BadRange):
            if not step.torn and not options.skip_corrupt:
                raise CorruptStore(
                    f"{step.path} holds {step.reason} at physical offset {step.physical_offset} ({step.size} bytes): "
                    'set corruptRecords to skip to read the rest, option("table", "bad_ranges") lists all such places'
                )
            if not step.torn:
                _LOG.warning(
                    "%s: left out %d bytes at physical offset %d, %s", step.path, step.size, step.physical_offset,
                    step.reason,
                )  # fmt: skip
            continue
        # Use batches of equal size: a small last batch would cost Spark as much as a full one.
        total = len(step.starts)
        count = -(-total // ROWS_PER_BATCH)
        for number in range(count):
            few = slice(total * number // count, total * (number + 1) // count)
            yield from _rows(FoundRecords(step.data, step.base, step.parts.of(few)), options, schema, marks)


def _rows(
    found: FoundRecords, options: StoreReadOptions, schema: pa.Schema, marks: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    """Yield the selected records as rows. Selects them before building the costly columns."""
    records = found.records()
    wanted = np.ones(len(records), np.bool_)
    if marks:
        wanted = alive(records.topic, records.numbers("physical_offset"), marks)
    if options.begin_ms or options.end_ms:
        times = records.numbers("store_timestamp")
        wanted &= times >= options.begin_ms
        if options.end_ms:
            wanted &= times < options.end_ms
    if options.topics and wanted.any():
        listed: Any = pc.is_in(records.topic, pa.array(options.topics, pa.string()))
        wanted &= listed.to_numpy(zero_copy_only=False)
    if not wanted.any():
        return
    if not wanted.all():
        records = RecordColumns(found.data, found.parts.of(wanted))
    parts: Iterable[Sifted] = [Sifted(records, None, None, None)]
    if not {"body", BAD_RECORD}.isdisjoint(schema.names):
        parts = sifted(records, options.bad_records, options.broker, _place)
    for part in parts:
        made = {"body": part.body, BAD_RECORD: part.reasons}
        arrays = [_column(part.records, options.broker, field, made) for field in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _place(records: RecordColumns, row: int) -> str:
    topic, queue_id, offset = (records.column(name)[row].as_py() for name in ("topic", "queue_id", "queue_offset"))
    return f"{topic}:{queue_id} offset {offset} at physical offset {int(records.numbers('physical_offset')[row])}"


def _column(records: RecordColumns, broker: str | None, field: pa.Field[Any], plain: Mapping[str, Any]) -> Any:
    made = plain.get(field.name)
    if made is None:
        made = kinds(records) if field.name == "kind" else column_of(records, broker, field.name)
    if field.name == "transaction_state":
        # A half message is stored with its bits cleared; its topic identifies it.
        made = _compute.if_else(_compute.equal(records.topic, HALF_TOPIC), "prepared", made)
    return made if made.type == field.type else made.cast(field.type)


def kinds(records: RecordColumns) -> Any:
    """Return the kind of each record: half (prepared, pending or not), delayed (pending), otherwise normal."""
    prepared = (records.numbers("sys_flag") & TRANSACTION_MASK) == TRANSACTION_PREPARED
    topic = records.topic
    half = _compute.or_(_compute.equal(topic, HALF_TOPIC), pa.array(prepared))
    delayed = _compute.is_in(topic, pa.array([SCHEDULE_TOPIC, TIMER_TOPIC]))
    return _compute.if_else(half, "half", _compute.if_else(delayed, "delayed", "normal"))


def bad_ranges(part: Stretch, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the bad ranges that a task owns, as rows."""
    schema = arrow_schema(columns, TABLES[BAD_RANGES])
    found = [asdict(step) for step in scan(part, check_crc=True) if isinstance(step, BadRange)]
    if found:
        arrays: list[Any] = [pa.array([bad[name] for bad in found], schema.field(name).type) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def stretch_rows(parts: Sequence[Stretch], columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return one row per stretch."""
    schema = arrow_schema(columns, TABLES[STRETCHES])
    rows = [asdict(part) for part in parts]
    arrays: list[Any] = [pa.array([row[name] for row in rows], schema.field(name).type) for name in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
