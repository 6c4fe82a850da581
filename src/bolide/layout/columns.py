"""CommitLog records as columns, with numpy and Arrow: the counterpart of `record`, `properties` and `message_id`.

No Python loop runs over messages. Starts are found by their magic and verified by their physical offset. Fixed fields
are read from one copy of all heads (`record_parts`). Variable fields are read from one Arrow array over the whole
buffer or, if all have one length, with one copy. Rare forms (invalid UTF-8, a property named twice, IPv6 ids) have
separate slow paths. A test checks that rows and columns are equal. Brokers never import this module.
"""

from __future__ import annotations

import functools
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bolide.layout import native_columns as native
from bolide.layout.errors import RecordError
from bolide.layout.message_id import host_text, offset_message_id
from bolide.layout.property_columns import Bytes, Ints, Marks, Pairs, between, coded, rows_at, slices, strings, words
from bolide.layout.record import BLANK_MAGIC, GOOD, check_record
from bolide.layout.record_parts import RecordParts, magic_positions, parts_at, proven_parts

if TYPE_CHECKING:
    from types import ModuleType

    from bolide.layout.property_columns import Column

_UNIT: Final = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
_ENTRY: Final = np.dtype([("key_hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
_MAX_BUFFER: Final = 2**31 - 1 - 2**20
_HEX: Final = np.frombuffer(b"".join(b"%02X" % i for i in range(256)), np.uint16)

NUMBERS: Final = (
    "total_size",
    "magic",
    "body_crc",
    "queue_id",
    "flag",
    "queue_offset",
    "physical_offset",
    "sys_flag",
    "born_timestamp",
    "store_timestamp",
    "reconsume_times",
    "prepared_transaction_offset",
)
COLUMNS: Final = (
    *NUMBERS,
    "topic",
    "body",
    "properties",
    "tags",
    "keys",
    "uniq_key",
    "born_host",
    "store_host",
    "message_id",
    "offset_message_id",
)
"""All columns of `record_batch`. Bodies are in stored form (see `sys_flag`), timestamps ms since the epoch."""


@dataclass(frozen=True)
class Starts:
    """Start positions of records in a buffer, in order. `cut` is the start of a record that the buffer's end truncates,
    or -1."""

    starts: Ints
    cut: int
    holes: list[tuple[int, int]]
    """(byte, size) of each gap between two records."""
    parts: RecordParts


def find_starts(buf: bytes, base: int, kernel: ModuleType | None = native.KERNEL) -> Starts:
    """Find the records in any byte range of a CommitLog segment. `base` is the physical offset of its first byte.

    The range may start and end anywhere. Each start is verified by magic, physical offset and inner lengths. Only a
    body forged for exactly this offset can be mistaken for a record, and only if the range starts inside that body.
    """
    raw = np.frombuffer(buf, np.uint8)
    if kernel is None:
        parts, cut = proven_parts(raw, base)
    else:
        found, cut = kernel.proven(raw, base)
        parts = parts_at(raw, np.frombuffer(found, np.int64))
    starts, ends = parts.starts, parts.end
    apart = np.flatnonzero(starts[1:] != ends[:-1])
    holes = [(int(ends[i]), int(starts[i + 1] - ends[i])) for i in apart]
    return Starts(starts, cut, holes, parts)


def chain_starts(buf: bytes, kernel: ModuleType | None = native.KERNEL) -> Ints:
    """Return the starts of consecutive records from byte 0, as in a pull response, up to the first invalid record."""
    raw = np.frombuffer(buf, np.uint8)
    if kernel is not None:
        return np.frombuffer(kernel.chained(raw), np.int64)
    starts = magic_positions(raw)
    if len(starts) and starts[0] == 0:
        parts = parts_at(raw, starts)
        ends = starts + parts.field(raw, "total_size")
        if bool((ends == np.append(starts[1:], len(raw))).all()) and bool((parts.end == ends).all()):
            return starts
    # A body contains a magic, or the last record is incomplete: follow the chain record by record.
    found: list[int] = []
    at = 0
    while (checked := check_record(buf, at, len(buf), False)).status == GOOD:
        found.append(at)
        at += int(checked.size)
    return np.array(found, np.int64)


def blank_at(buf: bytes, at: int) -> bool:
    """Whether the blank that ends a segment starts at this position."""
    return at + 8 <= len(buf) and int(struct.unpack_from(">i", buf, at + 4)[0]) == BLANK_MAGIC


def record_batch(buf: bytes, starts: Ints, names: Iterable[str] = COLUMNS) -> pa.RecordBatch:
    """Return these columns of the records at `starts` (from `find_starts` or `chain_starts`)."""
    columns = RecordColumns(buf, starts)
    wanted = list(names)
    return pa.RecordBatch.from_arrays([columns.column(name) for name in wanted], names=wanted)


def unit_batch(buf: bytes) -> pa.RecordBatch:
    """Return consecutive queue units as columns physical_offset, size, tags_code. Omits an incomplete last unit."""
    return _struct_batch(buf, _UNIT)


def entry_batch(buf: bytes) -> pa.RecordBatch:
    """Return consecutive index entries as columns key_hash, physical_offset, seconds, previous."""
    return _struct_batch(buf, _ENTRY)


class RecordColumns:
    """The records of one buffer. Columns are computed on demand, and expensive ones are cached.

    The `kernel` computes most columns. numpy and Arrow compute the others, or all if there is no kernel.
    """

    def __init__(
        self, buf: bytes | memoryview, starts: Ints | RecordParts, kernel: ModuleType | None = native.KERNEL
    ) -> None:
        if len(buf) > _MAX_BUFFER:
            raise RecordError(f"a buffer of {len(buf)} bytes is too large for columns: split it into parts below 2 GiB")
        self._kernel = kernel
        self._raw = np.frombuffer(buf, np.uint8)
        self._parts = starts if isinstance(starts, RecordParts) else parts_at(self._raw, np.asarray(starts, np.int64))

    def __len__(self) -> int:
        return len(self._parts)

    def only(self, which: NDArray[Any]) -> RecordColumns:
        """Return some of the records, selected by a mask or by indexes."""
        return RecordColumns(self._raw.data, self._parts.of(which), self._kernel)

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a fixed field as a native numpy array, int32 or int64 as stored; `name` is one of NUMBERS."""
        return self._parts.field(self._raw, name)

    def column(self, name: str) -> Column:
        """Return one of COLUMNS as an Arrow array. Raises RecordError for any other name."""
        if name in NUMBERS:
            numbers: Column = pa.array(self.numbers(name))
            return numbers
        if name not in COLUMNS:
            raise RecordError(f"there is no column {name!r} of a record: choose from {', '.join(COLUMNS)}")
        made: Column = getattr(self, name)
        return made

    def _spans(self, begin: Ints, end: Ints) -> Column:
        """Return the buffer's bytes between each `begin` and `end`."""
        made = None if self._kernel is None else native.between(self._kernel, self._raw, begin, end)
        return between(self._raw, begin, end) if made is None else made

    @property
    def whole(self) -> Column:
        """The stored records, as binary values."""
        return self._spans(self._parts.starts, self._parts.end)

    @functools.cached_property
    def body(self) -> Column:
        """Stored bodies, binary."""
        return self._spans(self._parts.body, self._parts.topic_length_at)

    @functools.cached_property
    def matches_crc(self) -> NDArray[np.bool_]:
        """Whether each body matches the CRC of its record. An empty body always does."""
        if self._kernel is not None:
            places = self._parts.body, self._parts.topic_length_at
            return native.matches_crc(self._kernel, self._raw, *places, self.numbers("body_crc"))
        body: Any = self.body
        found = np.fromiter(map(zlib.crc32, body.to_pylist()), np.int64, len(self)) & 0x7FFFFFFF
        empty: Any = self._parts.body == self._parts.topic_length_at
        matches: NDArray[np.bool_] = (found == self.numbers("body_crc")) | empty
        return matches

    @functools.cached_property
    def topic(self) -> Column:
        """Topics, string."""
        return strings(self._spans(self._parts.topic, self._parts.properties - 2))

    @functools.cached_property
    def topic_codes(self) -> Column:
        """Topics, dictionary encoded."""
        return coded(self.topic)

    @functools.cached_property
    def raw_properties(self) -> Column:
        """Stored properties, binary."""
        return self._spans(self._parts.properties, self._parts.end)

    @functools.cached_property
    def marks(self) -> Marks:
        """Positions of a few properties."""
        return Marks(self.raw_properties)

    @functools.cached_property
    def _native_pairs(self) -> native.NativePairs | None:
        if self._kernel is None:
            return None
        places = self._parts.properties, self._parts.end
        return native.NativePairs.of(self._kernel, self._raw, *places, lambda: strings(self.raw_properties))

    @functools.cached_property
    def _pairs(self) -> Pairs | native.NativePairs:
        return self._native_pairs or Pairs(strings(self.raw_properties))

    def property_values(self, name: str) -> Column:
        """Return one property of every record, null where it is absent.

        Cheapest after `properties`, because it reuses the pairs. Without pairs and kernel, names of 3 to 8 bytes are
        found without decoding all properties.
        """
        if self._native_pairs is not None or "_pairs" in self.__dict__ or not Marks.knows(name):
            return self._pairs.values_of(name)
        return self.marks.values_of(name)

    @property
    def properties(self) -> Column:
        """Properties, map of string to string, by the rules of `parse_properties`."""
        return self._pairs.as_map()

    @property
    def tags(self) -> Column:
        """TAGS, null where absent."""
        return self.property_values("TAGS")

    @property
    def uniq_key(self) -> Column:
        """UNIQ_KEY, null where absent."""
        return self.property_values("UNIQ_KEY")

    @property
    def keys(self) -> Column:
        """KEYS split at spaces, without empty items; null where absent."""
        texts = self.property_values("KEYS")
        return words(texts) if self._kernel is None else native.words(self._kernel, texts)

    @property
    def born_host(self) -> Column:
        """``ip:port`` of the producer."""
        return self._host_texts(self._parts.starts + 48, self._parts.born_end)

    @property
    def store_host(self) -> Column:
        """``ip:port`` of the broker."""
        return self._host_texts(self._parts.born_end + 8, self._parts.store_end)

    def _host_texts(self, begin: Ints, end: Ints) -> Column:
        made = None if self._kernel is None else native.host_texts(self._kernel, self._raw, begin, end)
        return _host_texts(self._spans(begin, end)) if made is None else made

    @functools.cached_property
    def offset_message_id(self) -> Column:
        """Message ids assigned by the broker, string."""
        begin, end = self._parts.born_end + 8, self._parts.store_end
        if self._kernel is not None:
            made = native.offset_message_ids(self._kernel, self._raw, begin, end, self._parts.starts)
            if made is not None:
                return made
        physical_offsets = self.numbers("physical_offset")
        hosts = self._spans(begin, end)
        if bool((self._parts.store_end - self._parts.born_end != 16).any()):
            pairs = zip(hosts.to_pylist(), physical_offsets.tolist(), strict=True)
            return pa.array([offset_message_id(host or b"", at) for host, at in pairs], pa.string())
        data = np.empty((len(self), 16), np.uint8)
        data[:, :8] = rows_at(self._raw, self._parts.born_end + 8, 8)
        data[:, 8:] = rows_at(self._raw, self._parts.starts + 28, 8)
        return _fixed_strings(_HEX[data].view(np.uint8), 32)

    @property
    def message_id(self) -> Column:
        """The id that a client reports for the message: UNIQ_KEY, or the broker's id if absent."""
        given = self.uniq_key
        return pc.coalesce(given, self.offset_message_id) if given.null_count else given


def _struct_batch(buf: bytes, kind: np.dtype[Any]) -> pa.RecordBatch:
    values = np.frombuffer(buf, kind, len(buf) // kind.itemsize)
    names = list(kind.names or ())
    arrays: list[Column] = [pa.array(values[name].astype(values[name].dtype.newbyteorder("="))) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _fixed_strings(data: Bytes, width: int) -> Column:
    """Return texts of `width` bytes each, given their concatenated bytes."""
    count = data.size // width
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return slices(pa.string(), offsets, data)


def _host_texts(hosts: Column) -> Column:
    """Return ``ip:port`` of raw hosts. Each distinct host is formatted once."""
    encoded: Any = hosts.dictionary_encode()
    texts = pa.array([host_text(host) for host in encoded.dictionary.to_pylist()], pa.string())
    return texts.take(encoded.indices)
