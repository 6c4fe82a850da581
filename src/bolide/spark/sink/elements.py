"""Rows as elements of batch bodies (`remoting/batch.py`), built column by column, without an object per row.

Arrow joins ordinary rows. `messages`, the reference, builds the same bytes for rows with a delay, with a duplicate name
in their properties, or with anything that may be invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bolide.dispatch.columns import string_hashes
from bolide.layout.hashes import java_hash
from bolide.layout.limits import MAX_PROPERTIES_LENGTH
from bolide.remoting.batch import ELEMENT_FIXED, BatchMessage, encode_batch
from bolide.spark.sink.messages import MAX_BODY, Outgoing, Refusal, RowOrigin, RowReader, Task
from bolide.spark.sink.property_texts import PropertyTexts, whole
from bolide.spark.times import in_utc, milliseconds_of

if TYPE_CHECKING:
    from bolide.spark.body.body_writer import BodyWriter, UnfitRow

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# The stubs of pyarrow know neither numpy arrays as buffers nor plain values as scalars.
_arrow: Any = pa
_compute: Any = pc

MAX_PIECE: Final = 16 * 1024 * 1024
"""Maximum size in bytes of the columns that are processed together."""
NO_TIME: Final = np.iinfo(np.int64).min
"""Born timestamp of a message that should get the time of sending."""


@dataclass(slots=True)
class Elements:
    """Messages of a topic, in the order of their rows."""

    topic: str
    origin: RowOrigin
    rows: Ints
    """Row numbers in the task."""
    data: Any
    """Arrow array with one batch element per message."""
    numbers: Ints | None
    """Queue number in each row, or -1. None if no row has one."""
    hashes: Ints | None
    """Absolute hash of the key that determines the queue, or -1. None if no row has a key."""
    alone: Bools | None
    """Mask of messages that cannot be sent in a batch, because they are delayed or have a born timestamp."""
    born: Ints | None
    """Born timestamps in ms since 1970, or `NO_TIME`. None if no row has one."""

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, where: Ints) -> Elements:
        """Return the messages at these indexes, in this order."""
        return Elements(
            self.topic,
            self.origin,
            self.rows[where],
            self.data.take(_arrow.array(where)),
            None if self.numbers is None else self.numbers[where],
            None if self.hashes is None else self.hashes[where],
            None if self.alone is None else self.alone[where],
            None if self.born is None else self.born[where],
        )

    def ends(self) -> Ints:
        """Return the offset of each element in `bytes`, and the end of the last one."""
        count = len(self.data)
        return np.frombuffer(self.data.buffers()[1], np.int32, count + 1, self.data.offset * 4).astype(np.int64)

    def bytes(self) -> memoryview:
        """Return the concatenated elements."""
        data = self.data.buffers()[2]
        return memoryview(b"" if data is None else data)


@dataclass(frozen=True, slots=True)
class BodyColumn:
    """A struct column to encode as bodies."""

    name: str
    writer: BodyWriter


class ElementReader:
    """Builds the messages of a task."""

    def __init__(
        self,
        topic: str,
        task: Task,
        immediate: bool,
        reference: type[RowReader] = RowReader,
        bodies: BodyColumn | None = None,
        *,
        any_tag: bool = False,
    ) -> None:
        """Takes the default `topic`. With `immediate`, rejects delayed rows. `reference` reads odd rows. With
        `any_tag`, accepts tags that no subscription selects."""
        self._topic = topic
        self._reference = reference(topic, task, immediate, any_tag)
        self._bodies = bodies
        self._rows = 0

    def read(self, batch: pa.RecordBatch) -> Iterator[Elements | Refusal]:
        """Yield the rejected rows of an Arrow batch, then the messages of each topic."""
        if self._bodies is None:
            yield from self._pieces(readable(batch), {})
            return
        for piece in _pieces(in_utc(batch)):  # first, because encoded bodies may be longer than their columns
            encoded, unfit = _encoded(piece, self._bodies)
            yield from self._pieces(readable(encoded), {self._rows + place: row for place, row in unfit.items()})

    def _pieces(self, batch: pa.RecordBatch, unfit: Mapping[int, UnfitRow]) -> Iterator[Elements | Refusal]:
        for piece in _pieces(batch):
            origin = RowOrigin(piece, self._rows, unfit)
            self._rows += piece.num_rows
            yield from self._piece(origin)

    def _piece(self, origin: RowOrigin) -> Iterator[Elements | Refusal]:
        made = _ElementRows(origin, self._reference.ids)
        topics, codes = self._topics(made)
        dropped = []
        odd = np.flatnonzero(made.odd)
        if len(odd):
            for place, read in zip(odd, self._reference.read(origin, (odd + origin.first).tolist()), strict=True):
                if isinstance(read, Refusal):
                    dropped.append(place)
                    yield read
                else:
                    codes[place] = topics.setdefault(read.topic, len(topics))
                    made.replace(int(place), read)
        everything = made.elements()
        if len(topics) == 1 and not dropped:
            everything.topic = next(iter(topics))
            yield everything
            return
        codes[dropped] = -1
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(topics) + 1))
        for topic, code in topics.items():
            where = order[bounds[code] : bounds[code + 1]]
            if len(where):
                some = everything.only(where)
                some.topic = topic
                yield some

    def _topics(self, made: _ElementRows) -> tuple[dict[str, int], Ints]:
        """Return a code for each topic, and the code of each row. Marks rows of an invalid topic as odd."""
        column = made.columns.get("topic")
        if column is None or column.null_count == len(column) or made.unreadable:
            if not self._reference.check_topic(self._topic):
                made.odd[:] = True
            return {self._topic: 0}, np.zeros(made.count, np.int64)
        coded = column.cast(pa.string()).dictionary_encode()
        given = [topic or self._topic for topic in coded.dictionary.to_pylist()]
        indices = coded.indices
        if coded.null_count:
            given.append(self._topic)
            indices = indices.fill_null(len(given) - 1)
        topics: dict[str, int] = {}
        codes = np.array([topics.setdefault(topic, len(topics)) for topic in given])[indices.to_numpy()]
        for topic, code in topics.items():
            if not self._reference.check_topic(topic):
                made.odd |= codes == code
        return topics, codes


class _ElementRows:
    """The columns of a piece, and the rows that need the reference."""

    def __init__(self, origin: RowOrigin, ids: str) -> None:
        batch = origin.batch
        self.count = batch.num_rows
        self.columns: dict[str, Any] = dict(zip(batch.schema.names, batch.columns, strict=True))
        self.odd: Bools = np.zeros(self.count, np.bool_)
        self._origin = origin
        self._replaced: dict[int, Outgoing] = {}
        self.unreadable = not _valid(batch) or origin.first + self.count >= 1 << 32
        if self.unreadable:
            self.odd[:] = True
            self._flags = np.zeros(self.count, np.int64)
            self._numbers = self._hashes = self._born = None
            return
        self._flags = self._column("flag", 0)
        self._numbers = self._integers("queue_id", -1)
        self._born = self._integers("born_timestamp", NO_TIME)
        self._texts = PropertyTexts(self.columns, origin.first, ids)
        self._hashes = _hashes(self._texts.route_keys)
        self._mark_odd()

    def _mark_odd(self) -> None:
        body = self.columns["body"]
        lengths = pc.binary_length(body).fill_null(0).to_numpy(zero_copy_only=False)
        self.odd |= (lengths == 0) | (lengths > MAX_BODY) | self._texts.odd
        self.odd |= self._texts.lengths > MAX_PROPERTIES_LENGTH
        self.odd |= (self._flags < -(1 << 31)) | (self._flags >= 1 << 31)
        if self._numbers is not None:
            given = self.columns["queue_id"].is_valid().to_numpy(zero_copy_only=False)
            self.odd |= given & (self._numbers < 0)
        delays = self._integers("delay_level", 0)
        if delays is not None:
            self.odd |= delays != 0
        times = self.columns.get("deliver_time")
        if times is not None:
            self.odd |= times.is_valid().to_numpy(zero_copy_only=False)

    def replace(self, place: int, message: Outgoing) -> None:
        """Replace a row by the message of the reference."""
        self._replaced[place] = message

    def elements(self) -> Elements:
        """Return all rows as messages without a topic. Odd rows that were not replaced have empty elements."""
        numbers, hashes, born = self._numbers, self._hashes, self._born
        alone = None if born is None else born != NO_TIME
        if self._replaced:
            numbers = np.full(self.count, -1) if numbers is None else numbers
            hashes = np.full(self.count, -1) if hashes is None else hashes
            born = np.full(self.count, NO_TIME) if born is None else born
            alone = born != NO_TIME
            for place, message in self._replaced.items():
                numbers[place] = -1 if message.queue_id is None else message.queue_id
                hashes[place] = abs(java_hash(message.route_key)) if message.route_key else -1
                born[place] = NO_TIME if message.born_timestamp is None else message.born_timestamp
                alone[place] = message.alone
        rows = np.arange(self._origin.first, self._origin.first + self.count)
        return Elements("", self._origin, rows, self._data(), numbers, hashes, alone, born)

    def _data(self) -> Any:
        replaced = {place: _element(message) for place, message in self._replaced.items()}
        if self.unreadable:
            return pa.array([replaced.get(place, b"") for place in range(self.count)], pa.binary())
        body = self.columns["body"]
        if body.null_count:
            body = body.fill_null(b"")
        lengths = pc.binary_length(body).to_numpy()
        head = np.zeros((self.count, 5), ">i4")
        head[:, 0] = ELEMENT_FIXED + lengths + self._texts.lengths
        head[:, 3] = self._flags
        head[:, 4] = lengths
        sizes = self._texts.lengths.astype(">i2").reshape(-1, 1)
        made = _compute.binary_join_element_wise(whole(head), body, whole(sizes), self._texts.texts, b"")
        if replaced:
            mask = np.zeros(self.count, np.bool_)
            mask[list(replaced)] = True
            values = pa.array([replaced[place] for place in sorted(replaced)], pa.binary())
            made = _compute.replace_with_mask(made, _arrow.array(mask), values)
        return made

    def _integers(self, name: str, missing: int) -> Ints | None:
        """Return a column of integers, or None if all are null."""
        column = self.columns.get(name)
        if column is None or column.null_count == len(column):
            return None
        return self._column(name, missing)

    def _column(self, name: str, missing: int) -> Ints:
        column = self.columns.get(name)
        if column is None or column.null_count == len(column):
            return np.full(self.count, missing, np.int64)
        numbers: Ints = np.array(column.cast(pa.int64()).fill_null(missing).to_numpy(zero_copy_only=False))
        return numbers


def _element(message: Outgoing) -> bytes:
    return encode_batch([BatchMessage(message.flag, message.body, message.properties.encode())])


def _encoded(batch: pa.RecordBatch, bodies: BodyColumn) -> tuple[pa.RecordBatch, dict[int, UnfitRow]]:
    """Return the batch with encoded bodies in its column `body`, and the rows that do not fit by index."""
    names = list(batch.schema.names)
    place = names.index(bodies.name)
    structs: Any = batch.column(place)
    data, unfit = bodies.writer.bodies(structs)
    names[place] = "body"
    columns = [data if at == place else column for at, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, names=names), unfit


def readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with times as ms since 1970, and the body as bytes."""
    columns = [
        column.cast(pa.binary()) if name == "body" else milliseconds_of(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the rows in pieces of limited size, without splitting a row."""
    if batch.num_rows > 1 and batch.nbytes > MAX_PIECE:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _valid(batch: pa.RecordBatch) -> bool:
    """Return whether all texts are valid UTF-8."""
    try:
        for column in batch.columns:
            if not pa.types.is_binary(column.type):
                column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _hashes(keys: Any) -> Ints | None:
    """Return the absolute Java hash of each key, or -1 for null. None if all are null."""
    if keys is None or keys.null_count == len(keys):
        return None
    hashes = np.abs(string_hashes(keys.fill_null("")).astype(np.int64))
    return np.where(keys.is_valid().to_numpy(zero_copy_only=False), hashes, -1)
