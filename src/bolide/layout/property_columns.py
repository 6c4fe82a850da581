"""Property strings as columns, with numpy and Arrow: the counterpart of `properties`, used by `columns`.

The separators of all rows are found together; names and values are then slices of one array. Rare forms (a row without
its last separator, a name twice in a row, invalid UTF-8) are detected and processed more slowly.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bolide.layout.properties import text_of

# The stubs of pyarrow know neither numpy arrays as buffers and columns nor plain values as scalars.
_arrow: Any = pa
_compute: Any = pc
if TYPE_CHECKING:
    Column: TypeAlias = pa.Array[Any]
Ints: TypeAlias = NDArray[np.int64]
Bytes: TypeAlias = NDArray[np.uint8]
_PIECE: Final = 256 * 1024
"""Number of bytes searched at a time."""


def take(values: Column, where: Ints) -> Column:
    """Return the elements at these indexes."""
    return values.take(pa.array(where, pa.int64()))


def every(values: Column, step: int, first: int = 0) -> Column:
    """Return every `step`-th element, starting with `first`."""
    return take(values, np.arange(first, len(values), step))


def slices(kind: pa.DataType, offsets: NDArray[np.int32], data: bytes | Bytes) -> Column:
    """Return an array of strings or bytes, defined by offsets in `data`, without a copy."""
    buffers = [None, _arrow.py_buffer(offsets), _arrow.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def distance(positions: Ints) -> int:
    """Return the distance between neighboring positions if it is constant, as for records of one size, else 0."""
    count = len(positions)
    if count < 2:
        return 0
    first, step = int(positions[0]), int(positions[1] - positions[0])
    if step < 1 or int(positions[-1]) != first + step * (count - 1):
        return 0
    return step if bool((positions[1:] - positions[:-1] == step).all()) else 0


def rows_at(raw: Bytes, positions: Ints, width: int) -> Bytes:
    """Return `width` bytes from each position as rows; positions beyond the end give meaningless bytes.

    Equidistant rows are a view, not a copy.
    """
    count = len(raw) - width + 1
    if count <= 0:
        return np.zeros((len(positions), width), np.uint8)
    step = distance(positions)
    if step and int(positions[-1]) < count:
        rows: Bytes = np.ndarray((len(positions), width), np.uint8, raw, int(positions[0]), (step, 1))
        return rows
    # One element per byte, each as wide as a row, so that an index is a position and an element is copied in one step.
    every_byte: NDArray[Any] = np.ndarray((count,), f"V{width}", raw, strides=(1,))
    if len(positions) and int(positions.max()) >= count:
        positions = np.minimum(positions, count - 1)
    taken: Bytes = every_byte[positions].view(np.uint8).reshape(-1, width)
    return taken


def between(raw: Bytes, begin: Ints, end: Ints) -> Column:
    """Return the bytes between each `begin` and `end` as binary values. Positions must be in ascending order.

    Faster if all values have the same length.
    """
    count = len(begin)
    width = int(end[0] - begin[0]) if count else 0
    if width and bool((end - begin == width).all()):
        offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
        # Elements of that size are copied whole, not byte by byte.
        rows: NDArray[Any] = rows_at(raw, begin, width).view(f"V{width}")
        return slices(pa.binary(), offsets, np.ascontiguousarray(rows[:, 0]).view(np.uint8))
    # Take every other element of an array that spans the whole buffer.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = begin
    offsets[1::2] = end
    offsets[-1] = end[-1] if count else 0
    return every(slices(pa.binary(), offsets, raw), 2)


def places_of(raw: Bytes, byte: int) -> Ints:
    """Return the positions of a byte, in order. Searches in pieces, so that the mask fits into the CPU cache."""
    marks = np.empty(min(len(raw), _PIECE), np.bool_)
    found: list[Ints] = []
    for at in range(0, len(raw), _PIECE):
        piece = raw[at : at + _PIECE]
        hits = np.flatnonzero(np.equal(piece, byte, out=marks[: len(piece)]))
        hits += at
        found.append(hits)
    return np.concatenate(found) if found else np.empty(0, np.int64)


def coded(texts: Column) -> Column:
    """Dictionary-encode texts. If all are equal, as topics and tags often are, no text is looked up."""
    count = len(texts)
    if count and not texts.null_count:
        raw, offsets = _contents(texts)
        width = int(offsets[1])
        same = width and len(raw) == count * width and bool((np.diff(offsets) == width).all())
        if same and bool((raw[width:] == raw[:-width]).all()):
            one: Column = _arrow.DictionaryArray.from_arrays(np.zeros(count, np.int32), texts.slice(0, 1))
            return one
    plain: Any = texts
    encoded: Column = plain.dictionary_encode()
    return encoded


def strings(raw: Column) -> Column:
    """Convert binary values to strings. Invalid UTF-8 becomes U+FFFD, as in Java."""
    data, _ = _contents(raw)
    if not raw.null_count and (not len(data) or int(data.max()) < 0x80):
        plain: Any = raw
        texts: Column = _arrow.Array.from_buffers(pa.string(), len(raw), plain.buffers(), offset=plain.offset)
        return texts
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([text_of(one or b"") for one in raw.to_pylist()], pa.string())


def words(texts: Column) -> Column:
    """Return texts split at spaces, without empty items. Null remains null."""
    lists: Any = _compute.split_pattern(texts, " ")
    items = lists.flatten()
    filled = _compute.not_equal(items, "")
    whole: Column = lists
    if _compute.all(filled).as_py() is False:
        counts = np.bincount(lists.value_parent_indices().filter(filled).to_numpy(), minlength=len(texts))
        offsets = np.zeros(len(texts) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        whole = _arrow.ListArray.from_arrays(_arrow.array(offsets), items.filter(filled), mask=texts.is_null())
    return whole


class Pairs:
    """The pairs of many property strings: names, values, and the row of each pair."""

    def __init__(self, texts: Column) -> None:
        self._count = len(texts)
        raw, offsets = _contents(texts)
        filled = offsets[1:] > offsets[:-1]
        if not bool((raw[offsets[1:][filled] - 1] == 2).all()):
            # RocketMQ 4.9 omits the last separator. An additional empty pair is harmless.
            texts = _compute.binary_join_element_wise(texts, "", "\x02")
            raw, offsets = _contents(texts)
        end = np.flatnonzero(raw == 2)
        begin = np.concatenate([np.zeros(min(1, len(end)), np.int64), end[:-1] + 1])
        rows = np.repeat(np.arange(self._count), np.diff(np.searchsorted(end, offsets)))
        marks = np.flatnonzero(raw == 1)
        if len(marks) != len(end) or not bool(((marks >= begin) & (marks < end)).all()):
            marks = np.append(marks, len(raw))[np.searchsorted(marks, begin)]
        good = (marks > begin) & (marks < end - 1)
        if not bool(good.all()):
            begin, end, rows, marks = begin[good], end[good], rows[good], marks[good]
        # Groups of four elements: name, 0x01, value, and the bytes before the next name.
        spread = np.empty(4 * len(end) + 1, np.int32)
        spread[0:-1:4] = begin
        spread[1::4] = marks
        spread[2::4] = marks + 1
        spread[3::4] = end
        spread[-1] = end[-1] if len(end) else 0
        whole = slices(pa.string(), spread, raw)
        self._rows = rows
        names: Any = every(whole, 4).dictionary_encode()
        self._names = names
        self._values = every(whole, 4, 2)
        self._drop_repeats()

    def _drop_repeats(self) -> None:
        """Keep the last of several pairs with one name in a row."""
        codes = self._names.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        self._codes = codes
        if not len(codes):
            return
        key = self._rows * (len(self._names.dictionary) + 1) + codes
        if len(self._names.dictionary) <= 62:
            # One bit per name: if a row contains a name twice, the sum of its bits is greater than their union.
            bits = np.left_shift(np.int64(1), codes)
            first = np.flatnonzero(np.append(True, self._rows[1:] != self._rows[:-1]))
            if bool((np.add.reduceat(bits, first) == np.bitwise_or.reduceat(bits, first)).all()):
                return
        _, last = np.unique(key[::-1], return_index=True)
        if len(last) == len(key):
            return
        keep = np.sort(len(key) - 1 - last)
        self._rows = self._rows[keep]
        self._codes = codes[keep]
        self._names = take(self._names, keep)
        self._values = take(self._values, keep)

    def as_map(self) -> Column:
        """Return one map per row."""
        offsets = np.zeros(self._count + 1, np.int32)
        np.cumsum(np.bincount(self._rows, minlength=self._count), out=offsets[1:])
        names = self._names.dictionary.take(self._names.indices)
        maps: Column = _arrow.MapArray.from_arrays(_arrow.array(offsets), names, self._values)
        return maps

    def values_of(self, name: str) -> Column:
        """Return one property of every row, null where it is absent."""
        code = _compute.index(self._names.dictionary, name).as_py()
        if code < 0:
            return pa.nulls(self._count, pa.string())
        hits = np.flatnonzero(self._codes == code)
        where = np.full(self._count, -1, np.int64)
        where[self._rows[hits]] = hits
        if len(hits) == self._count:
            return take(self._values, where)
        return self._values.take(pa.array(where, pa.int64(), mask=where < 0))


class Marks:
    """Values of a few properties of many rows, found by name without decoding all strings.

    All positions refer to `raw`, the concatenated bytes of all rows.
    """

    def __init__(self, rows: Column) -> None:
        self.count = len(rows)
        raw, offsets = _contents(rows)
        filled = offsets[1:] > offsets[:-1]
        if not bool((raw[offsets[1:][filled] - 1] == 2).all()):
            # RocketMQ 4.9 omits the last separator. An additional empty pair is harmless.
            rows = _compute.binary_join_element_wise(rows, b"", b"\x02")
            raw, offsets = _contents(rows)
        self.raw = raw
        self._ends = places_of(raw, 2)
        self._begins = np.concatenate([np.zeros(min(1, len(self._ends)), np.int64), self._ends[:-1] + 1])
        self._offsets = offsets
        self._heads = _eights(raw, self._begins)

    @functools.cached_property
    def _rows(self) -> Ints:
        """The row of each pair."""
        each, rest = divmod(len(self._ends), max(self.count, 1))
        if each and not rest and bool((self._ends[each - 1 :: each] == self._offsets[1:] - 1).all()):
            return np.repeat(np.arange(self.count), each)  # every row has the same number of pairs
        return np.repeat(np.arange(self.count), np.diff(np.searchsorted(self._ends, self._offsets)))

    def spans(self, name: bytes) -> tuple[Ints, Ints, Ints]:
        """Return the rows with this property (a name of 3 to 8 bytes), in order, and start and end of its values."""
        size = len(name)
        mark = (name + b"\x01")[:8]
        wanted = np.uint64(int.from_bytes(mark, "little"))
        heads = self._heads if len(mark) == 8 else self._heads & np.uint64((1 << 8 * len(mark)) - 1)
        hits = np.flatnonzero(heads == wanted)
        begin, end = self._begins[hits] + size + 1, self._ends[hits]
        good = end > begin
        if size == 8:
            good &= self.raw[begin - 1] == 1
        if not bool(good.all()):
            hits, begin, end = hits[good], begin[good], end[good]
        rows = self._rows[hits]
        last = np.append(rows[1:] != rows[:-1], True)[: len(rows)]
        if not bool(last.all()):
            rows, begin, end = rows[last], begin[last], end[last]  # the last of several pairs with one name applies
        return rows, begin, end

    @staticmethod
    def knows(name: str) -> bool:
        """Return whether `spans` can find a property of this name."""
        return 3 <= len(name.encode()) <= 8

    def values_of(self, name: str) -> Column:
        """Return one property of every row, null where it is absent."""
        rows, begin, end = self.spans(name.encode())
        values = strings(between(self.raw, begin, end))
        if len(rows) == self.count:
            return values
        where = np.full(self.count, -1, np.int64)
        where[rows] = np.arange(len(rows))
        return values.take(pa.array(where, pa.int64(), mask=where < 0))


def _eights(raw: Bytes, begins: Ints) -> NDArray[np.uint64]:
    """Return the eight bytes at each position as a little-endian number. Bytes after the end are zeros."""
    if len(raw) < 8:
        raw = np.append(raw, np.zeros(8, np.uint8))
    # One element per byte.
    eights: NDArray[np.uint64] = np.ndarray((len(raw) - 7,), np.dtype("<u8"), raw, strides=(1,))
    near = int(np.searchsorted(begins, len(eights)))
    heads = eights[np.minimum(begins, len(eights) - 1)]
    heads[near:] >>= (8 * (begins[near:] - (len(eights) - 1))).astype(np.uint64)
    return heads


def _contents(texts: Column) -> tuple[Bytes, Ints]:
    """Return the bytes of a string array, and the offsets of its elements in them."""
    if not len(texts):
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    _, ends, data = texts.buffers()
    offsets = np.frombuffer(memoryview(ends or b""), np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    raw = np.frombuffer(memoryview(data or b""), np.uint8)[offsets[0] : offsets[-1]]
    return raw, offsets - offsets[0]
