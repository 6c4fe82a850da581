"""Columns of records, computed by the compiled kernel (`column_kernel`), as Arrow arrays.

If the kernel is not built, or a function returns None, `columns` computes the same column with numpy and Arrow.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bolide.layout.property_columns import Bytes, Ints

if TYPE_CHECKING:
    from bolide.layout.property_columns import Column

_arrow: Any = pa  # its stubs lack arrays of buffers
_WORDS: Final[Any] = pa.list_(pa.string())


def _built() -> ModuleType | None:
    try:
        from bolide.layout import column_kernel
    except ImportError:
        return None
    return column_kernel


KERNEL: Final = _built()
"""The compiled kernel, or None if it is not built."""


def between(kernel: ModuleType, raw: Bytes, begin: Ints, end: Ints) -> Column | None:
    """Do what `property_columns.between` does. Raises ValueError for positions outside `raw`."""
    return _array(pa.binary(), len(begin), kernel.gathered(raw, _row(begin), _row(end), pa.allocate_buffer))


def matches_crc(
    kernel: ModuleType, raw: Bytes, begin: Ints, end: Ints, crcs: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Return `RecordColumns.matches_crc` of the bodies between these positions."""
    return np.frombuffer(kernel.matching(raw, _row(begin), _row(end), np.ascontiguousarray(crcs)), np.bool_)


def host_texts(kernel: ModuleType, raw: Bytes, begin: Ints, end: Ints) -> Column | None:
    """Return the texts ``ip:port`` of the stored hosts between these positions, or None if a host is not IPv4."""
    return _array(pa.string(), len(begin), kernel.hosts(raw, _row(begin), _row(end), pa.allocate_buffer))


def offset_message_ids(kernel: ModuleType, raw: Bytes, begin: Ints, end: Ints, records: Ints) -> Column | None:
    """Return `RecordColumns.offset_message_id` of the `records`, whose store hosts are between `begin` and `end`."""
    made = kernel.offset_ids(raw, _row(begin), _row(end), _row(records), pa.allocate_buffer)
    return _array(pa.string(), len(begin), made)


def words(kernel: ModuleType, texts: Column) -> Column:
    """Do what `property_columns.words` does."""
    found: Any = texts
    if found.null_count == len(found):
        nothing: Column = pa.nulls(len(found), _WORDS)
        return nothing
    if found.offset:
        found = _arrow.concat_arrays([found])
    valid, offsets, data = found.buffers()
    at, text = np.frombuffer(offsets, np.int32, len(found) + 1), np.frombuffer(data or b"", np.uint8)
    lists, word_offsets, parts = kernel.split(at, text, pa.allocate_buffer)
    whole: Column = _arrow.ListArray.from_buffers(
        _WORDS, len(found), [valid, lists], children=[_strings(word_offsets, parts)]
    )
    return whole


class NativePairs:
    """The pairs of many property strings, with the methods of `property_columns.Pairs`."""

    def __init__(self, split: Any, count: int) -> None:
        self._split = split
        self._count = count

    @classmethod
    def of(
        cls, kernel: ModuleType, raw: Bytes, begin: Ints, end: Ints, texts: Callable[[], Column]
    ) -> NativePairs | None:
        """Split the property strings between these positions. Return None if the kernel cannot split them.

        If one of the strings is not ASCII, `texts` is called, and returns all of them as valid UTF-8.
        """
        split = kernel.PropertyPairs(raw, _row(begin), _row(end))
        if not split.plain:
            known: Any = texts()
            _, offsets, data = known.buffers()
            at = np.frombuffer(offsets, np.int32, len(known) + 1, 4 * known.offset).astype(np.int64)
            split = kernel.PropertyPairs(np.frombuffer(data, np.uint8), at[:-1], at[1:])
        return cls(split, len(begin)) if split.complete else None

    def as_map(self) -> Column:
        """Return a map for each row."""
        offsets, name_offsets, names, value_offsets, values = self._split.maps(pa.allocate_buffer)
        at = _arrow.Array.from_buffers(pa.int32(), self._count + 1, [None, offsets], null_count=0)
        maps: Column = _arrow.MapArray.from_arrays(at, _strings(name_offsets, names), _strings(value_offsets, values))
        return maps

    def values_of(self, name: str) -> Column:
        """Return one property of every row, null where it is absent."""
        nulls, bits, offsets, data = self._split.values(name.encode(), pa.allocate_buffer)
        buffers = [bits if nulls else None, offsets, data]
        values: Column = _arrow.Array.from_buffers(pa.string(), self._count, buffers, null_count=nulls)
        return values


def _array(kind: pa.DataType, count: int, made: tuple[pa.Buffer, pa.Buffer] | None) -> Column | None:
    if made is None:
        return None
    array: Column = _arrow.Array.from_buffers(kind, count, [None, *made], null_count=0)
    return array


def _strings(offsets: pa.Buffer, data: pa.Buffer) -> Column:
    texts: Column = _arrow.Array.from_buffers(pa.string(), offsets.size // 4 - 1, [None, offsets, data], null_count=0)
    return texts


def _row(places: Ints) -> Ints:
    """Return the positions in contiguous memory, which the kernel needs."""
    return np.ascontiguousarray(places)
