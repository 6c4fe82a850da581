"""Converts record bytes to Arrow batches with the source's columns, without a Python loop per message.

Compressed bodies are the exception (`sifting`): each is decompressed separately, with a limit. Filters select rows by a
few fields before the costly columns are built.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bolide.layout.columns import RecordColumns, chain_starts
from bolide.layout.sysflag import TRANSACTION_MASK
from bolide.spark.body.typed_body import BodyReader, body_reader, typed_columns
from bolide.spark.errors import DataLost
from bolide.spark.source.bad_records import BAD_RECORD
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.members import BrokerMembers
from bolide.spark.source.ranges import Range
from bolide.spark.source.schema import COLUMNS, PROPERTY_PREFIX
from bolide.spark.source.sifting import Sifted, sifted
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.spark_versions import to_arrow_schema
from bolide.transport.blocking import ClientConnection

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql.types import StructType

    from bolide.spark.source.row_filters import RowFilters

ROWS_PER_BATCH: Final = 8_192
"""Spark is fastest with 1,000 to 10,000 rows per batch."""
BYTES_PER_BATCH: Final = 8 * 1024 * 1024
_TRANSACTION_STATES: Final = ("none", "prepared", "commit", "rollback")
"""Indexed by the two transaction bits of the sys flag. Not an array, because building one imports pandas, which
planners do not need."""
EARLIEST_MS: Final = -62_135_424_000_000
"""0001-01-03: Spark's timestamps start with the year 1, and Python needs the day before."""
LATEST_MS: Final = 253_402_041_600_000
"""9999-12-29: Spark's timestamps end with the year 9999, which some time zones reach a day earlier."""
_compute: Any = pc  # its stubs lack plain values as scalars and some functions


def read_ranges(
    parts: Iterable[Range], members: Mapping[str, BrokerMembers], options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with several ranges, over one connection per broker. Joins small batches."""
    spare: dict[str, ClientConnection] = {}
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        for part in parts:
            for batch in read_range(part, members[part.queue.broker], options, schema, spare):
                waiting.append(batch)
                rows += batch.num_rows
                size += batch.nbytes
                if rows >= ROWS_PER_BATCH or size >= BYTES_PER_BATCH:
                    yield from _joined(waiting)
                    waiting, rows, size = [], 0, 0
        yield from _joined(waiting)
    finally:
        for connection in spare.values():
            connection.close()


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if batches:
        yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


def read_range(
    part: Range,
    members: BrokerMembers,
    options: SourceOptions,
    schema: StructType,
    spare: dict[str, ClientConnection] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range, a few thousand per batch. Memory does not depend on the size of the range.

    Uses idle connections from `spare`, by address, and returns them afterwards.
    """
    maker = RowMaker(part, options, schema)
    waiting: list[bytes] = []
    size = 0
    since = part.begin
    for body, following in RangeReader(part, members, options, spare=spare).chunks():
        waiting.append(body)
        size += len(body)
        if size >= BYTES_PER_BATCH or following - since >= ROWS_PER_BATCH:
            yield from maker.rows(b"".join(waiting), since, following)
            waiting, size, since = [], 0, following
    if waiting:
        yield from maker.rows(b"".join(waiting), since, following)


class RowMaker:
    """Builds the rows of a task, in order."""

    def __init__(self, part: Range, options: SourceOptions, schema: StructType) -> None:
        self._part = part
        self._filters = options.filters
        self._fail = options.fail_on_data_loss
        self._whole = options.fail_on_data_loss and not options.filters.at_broker
        """Whether every offset of the range must have a message."""
        self._schema: pa.Schema = to_arrow_schema(schema)
        self._bad = options.bad_records
        others = (*COLUMNS, BAD_RECORD)
        names = [name for name in self._schema.names if name not in others and not name.startswith(PROPERTY_PREFIX)]
        self._looks_at_bodies = bool(options.body.kind) or not {"body", BAD_RECORD}.isdisjoint(self._schema.names)
        self._bodies: BodyReader | None = body_reader(options.body, self._schema, names) if options.body.kind else None

    def rows(self, data: bytes, since: int, following: int) -> Iterator[pa.RecordBatch]:
        """Yield concatenated records as rows. They cover the offsets from `since` to `following`, exclusive.

        Yields one batch, unless the decompressed bodies are too large. Raises `DataLost` if messages are missing.
        """
        starts = chain_starts(data)
        records = RecordColumns(data, starts)
        wanted = self._in_range(records.numbers("queue_offset"), since, following)
        if self._filters.tags or self._filters.keys or self._filters.stored_from or self._filters.stored_to:
            wanted &= chosen(records, self._filters)
        if not wanted.all():
            records = RecordColumns(data, starts[wanted])
        if not self._looks_at_bodies:
            yield self._batch(records, {})
            return
        if not records.matches_crc.all():
            records = self._intact(records)
        for part in sifted(records, self._bad, self._part.queue.broker, self._place):
            yield self._with_bodies(part)

    def _batch(self, records: RecordColumns, made: dict[str, Any]) -> pa.RecordBatch:
        """Return the rows of these records. `made` contains the columns that already exist."""
        if "properties" in self._schema.names:
            made["properties"] = records.properties  # first, because tags, keys and ids are derived from it
        columns = [self._column(records, field, made) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _with_bodies(self, part: Sifted) -> pa.RecordBatch:
        """Return the rows of records with decompressed bodies."""
        records, body, good, reasons = part
        made: dict[str, Any] = {}
        if self._bodies is not None:
            made, kept = typed_columns(self._bodies, body, good, functools.partial(self._place, records))
            if kept is not None:
                records, body = records.only(kept), body.filter(pa.array(kept))
                reasons = None if reasons is None else reasons.filter(pa.array(kept))
        made["body"] = body
        if reasons is not None:
            made[BAD_RECORD] = reasons
        return self._batch(records, made)

    def _in_range(self, offsets: NDArray[np.int64], since: int, following: int) -> NDArray[np.bool_]:
        """Select the rows of the range that are not duplicates: responses to filtered pulls may overlap."""
        low, high = max(since, self._part.begin), min(following, self._part.end)
        wanted = (offsets >= low) & (offsets < high)
        if len(offsets) > 1:
            wanted[1:] &= offsets[1:] > np.maximum.accumulate(offsets)[:-1]
        if self._whole and int(wanted.sum()) != high - low:
            raise DataLost(
                f"{self._part.queue}: the broker has only {int(wanted.sum())} of the {high - low} messages at offsets "
                f"{low} to {high}, because files were deleted or the topic is compacted: set failOnDataLoss to false "
                "to read the rest"
            )
        return wanted

    def _column(self, records: RecordColumns, field: pa.Field[Any], made: Mapping[str, Any]) -> Any:
        name = field.name
        found = made[name] if name in made else column_of(records, self._part.queue.broker, name)
        return found if found.type == field.type else found.cast(field.type)

    def _intact(self, records: RecordColumns) -> RecordColumns:
        """Return the records that match their CRCs. Raises `DataLost` if failOnDataLoss is set."""
        good = records.matches_crc
        first = self._place(records, int(np.argmin(good)))
        what = f"the bodies of {int((~good).sum())} messages do not match their CRCs, first of {first}"
        data_lost(f"{what}: run `bolide store verify` on the broker", self._fail, "leave them out")
        return records.only(good)

    def _place(self, records: RecordColumns, row: int) -> str:
        return f"{self._part.queue} offset {int(records.numbers('queue_offset')[row])}"


def chosen(records: RecordColumns, filters: RowFilters) -> NDArray[np.bool_]:
    """Select the records that match filters. Brokers compare only hashes of tags, so this compares their text."""
    wanted = np.ones(len(records), np.bool_)
    if filters.stored_from or filters.stored_to:
        times = records.numbers("store_timestamp")
        wanted = times >= filters.stored_from
        if filters.stored_to:
            wanted &= times < filters.stored_to
    if filters.tags:
        wanted &= _is_in(records.tags, filters.tags)
    if filters.keys:
        lists: Any = records.keys
        hits = _is_in(lists.flatten(), filters.keys)
        having = np.zeros(len(records), np.bool_)
        having[lists.value_parent_indices().to_numpy()[hits]] = True
        wanted &= having
    return wanted


def _is_in(texts: Any, names: tuple[str, ...]) -> Any:
    """Return whether each text is one of `names`. False for null."""
    return _compute.is_in(texts, pa.array(names, pa.string())).to_numpy(zero_copy_only=False)


def column_of(records: RecordColumns, broker: str | None, name: str) -> Any:
    """Return a column of the source's schema in its Arrow type. The broker column is null if `broker` is None."""
    if name == BAD_RECORD:
        return pa.nulls(len(records), pa.string())
    if name == "broker":
        return pa.nulls(len(records), pa.string()) if broker is None else pa.repeat(broker, len(records))
    if name in ("born_timestamp", "store_timestamp"):
        return timestamps(records.numbers(name))
    if name == "transaction_state":
        bits = (records.numbers("sys_flag") & TRANSACTION_MASK) >> 2
        if not bits.any():
            return pa.repeat(_TRANSACTION_STATES[0], len(records))
        states: Any = pa.array(_TRANSACTION_STATES)
        return states.take(pa.array(bits))
    if name.startswith(PROPERTY_PREFIX):
        return records.property_values(name.removeprefix(PROPERTY_PREFIX))
    return records.column(name)


def timestamps(milliseconds: NDArray[np.int64]) -> Any:
    """Convert times to Spark's microseconds. Times out of range become the nearest that all time zones can show."""
    if len(milliseconds) and (int(milliseconds.max()) > LATEST_MS or int(milliseconds.min()) < EARLIEST_MS):
        milliseconds = np.clip(milliseconds, EARLIEST_MS, LATEST_MS)
    near: Any = pa.array(milliseconds * 1000)
    return near.view(pa.timestamp("us", "UTC"))
