"""Builds the property strings of many rows with Arrow: the id, the property map, tags, sharding key and keys."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bolide.layout import property_names as names
from bolide.layout.words import tag_fault
from bolide.spark.sink.messages import TAKEN_OVER

Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# The stubs of pyarrow know neither numpy arrays as buffers nor plain values as scalars.
_arrow: Any = pa
_compute: Any = pc

_TAKEN: Final = sorted(TAKEN_OVER)
_LEFT_OUT: Final = sorted(names.RESERVED - TAKEN_OVER)
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_WAITS: Final = f"\x02{names.WAIT}\x01true\x02".encode()


def _bad_tags(tags: Any) -> Bools:
    """Return the mask of tags that the reference rejects."""
    bad = [tag for tag in pc.unique(tags).to_pylist() if tag and tag_fault(tag)]
    found: Bools = _compute.is_in(tags, value_set=pa.array(bad, tags.type)).to_numpy(zero_copy_only=False)
    return found


def whole(table: NDArray[Any]) -> Any:
    """Return the rows of a table of bytes or numbers as binary values of equal length."""
    count, width = table.shape[0], table.shape[1] * table.itemsize
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    buffers = [None, _arrow.py_buffer(offsets), _arrow.py_buffer(np.ascontiguousarray(table))]
    return pa.Array.from_buffers(pa.binary(), count, buffers)


class PropertyTexts:
    """The property strings of rows. `texts` contains one string per row, and `lengths` their sizes in bytes."""

    def __init__(self, columns: dict[str, Any], first: int, ids: str) -> None:
        """Takes columns by name with valid UTF-8, the number of the `first` row, and the prefix of generated `ids`."""
        self._columns = columns
        count = len(columns["body"])
        self.odd: Bools = np.zeros(count, np.bool_)
        """Mask of rows that the reference must read. Their texts are invalid."""
        own = {name: self._text(column) for name, column in _COLUMNS}
        if own[names.TAGS] is not None:
            self.odd |= _bad_tags(own[names.TAGS])
        parts = [self._ids(first, count, ids)]
        pairs = np.full(count, 2, np.int64)
        self.route_keys = _first_of(self._text("route_key"), own[names.SHARDING_KEY])
        """Key that determines the queue of each row, or null. None if no row has one."""
        maps = columns.get("properties")
        if maps is not None and maps.null_count < count:
            parts.append(self._from_maps(maps, own, pairs))
        for name, values in own.items():
            if values is not None:
                pairs += values.is_valid().to_numpy(zero_copy_only=False)
                text = _compute.binary_join_element_wise(name, values, "\x01")
                ended = _compute.binary_join_element_wise(text, "", "\x02")
                parts.append(_compute.fill_null(ended, "").cast(pa.binary()))
        self.texts = parts[0] if len(parts) == 1 else _compute.binary_join_element_wise(*parts, b"")
        self.lengths: Ints = pc.binary_length(self.texts).to_numpy().astype(np.int64)
        if len(parts) > 1 or "message_id" in columns:
            self._mark_separators(pairs)

    def _ids(self, first: int, count: int, ids: str) -> Any:
        """Return `UNIQ_KEY` and `WAIT`, with the given id or an id generated from the row number."""
        begin = f"{names.UNIQ_KEY}\x01{ids}".encode()
        numbers = np.arange(first, first + count)
        table = np.empty((count, len(begin) + 8 + len(_WAITS)), np.uint8)
        table[:, : len(begin)] = np.frombuffer(begin, np.uint8)
        for digit in range(8):
            table[:, len(begin) + 7 - digit] = _HEX[(numbers >> 4 * digit) & 15]
        table[:, len(begin) + 8 :] = np.frombuffer(_WAITS, np.uint8)
        made = whole(table)
        given = self._text("message_id")
        if given is None:
            return made
        texts = _compute.binary_join_element_wise(
            f"{names.UNIQ_KEY}\x01".encode(), given.cast(pa.binary()), _WAITS, b""
        )
        return _compute.coalesce(texts, made)

    def _text(self, name: str) -> Any:
        """Return a column with null for empty texts, or None if all are null. Joins lists of keys with spaces."""
        column = self._columns.get(name)
        if column is None or column.null_count == len(column):
            return None
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            column = self._joined(column)
        else:
            column = column.cast(pa.string())
        empty = _compute.equal(column, "")
        return _compute.if_else(empty, None, column) if pc.any(empty).as_py() else column

    def _joined(self, lists: Any) -> Any:
        """Join keys with spaces. Marks a row as odd if all its keys are empty, because the property then has an empty
        value, or if a key contains a space, because the row is then rejected."""
        items = lists.flatten().cast(pa.string())
        blank = _compute.fill_null(_compute.match_substring(items, " "), False)
        self.odd[lists.value_parent_indices().filter(blank).to_numpy()] = True
        filled = _compute.fill_null(_compute.not_equal(items, ""), False)
        rows = lists.value_parent_indices().filter(filled).to_numpy()
        counts = np.bincount(rows, minlength=len(lists))
        some = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False) > 0
        self.odd |= some & (counts == 0)
        return _compute.binary_join(_lists(counts, items.filter(filled)), " ")

    def _from_maps(self, maps: Any, own: dict[str, Any], pairs: Ints) -> Any:
        """Return the pairs of the maps. A name that also has a column keeps its position, with the column's value."""
        count = len(maps)
        entries = maps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
        rows = entries.value_parent_indices().to_numpy()
        flat = entries.flatten()
        keys, values = flat.field("key"), flat.field("value")
        known = _compute.is_in(keys, value_set=pa.array([*_LEFT_OUT, ""]))
        kept = _compute.and_(_compute.invert(known), _compute.fill_null(_compute.not_equal(values, ""), False))
        if not pc.all(kept).as_py():
            rows, keys, values = rows[kept.to_numpy(zero_copy_only=False)], keys.filter(kept), values.filter(kept)
        taken = _compute.is_in(keys, value_set=pa.array(_TAKEN))
        if pc.any(taken).as_py():
            values = self._overridden(rows, keys, values, own)
            tagged = np.flatnonzero(_compute.equal(keys, names.TAGS).to_numpy(zero_copy_only=False))
            self.odd[rows[tagged[_bad_tags(values.take(_arrow.array(tagged)))]]] = True
        self._mark_repeats(rows, keys)
        counts = np.bincount(rows, minlength=count)
        pairs += counts
        texts = _compute.binary_join_element_wise(_compute.binary_join_element_wise(keys, values, "\x01"), "", "\x02")
        return _compute.binary_join(_lists(counts, texts), "").cast(pa.binary())

    def _overridden(self, rows: Ints, keys: Any, values: Any, own: dict[str, Any]) -> Any:
        for name in _TAKEN:
            hits = _compute.equal(keys, name).to_numpy(zero_copy_only=False)
            where = np.flatnonzero(hits)
            if not len(where):
                continue
            column = own[name]
            if column is not None:
                from_column = column.take(_arrow.array(rows[where]))
                values = _compute.replace_with_mask(
                    values, _arrow.array(hits), _compute.coalesce(from_column, values.filter(_arrow.array(hits)))
                )
                placed = np.zeros(len(column), np.bool_)
                placed[rows[where]] = True
                own[name] = _compute.if_else(_arrow.array(placed), None, column)
            if name == names.SHARDING_KEY:
                found = np.full(len(self.odd), -1, np.int64)
                found[rows[where]] = where
                from_map = values.take(_arrow.array(found, mask=found < 0))
                self.route_keys = _first_of(self.route_keys, from_map)
        return values

    def _mark_repeats(self, rows: Ints, keys: Any) -> None:
        """Mark rows with a duplicate name."""
        if not len(rows):
            return
        coded = keys.dictionary_encode()
        places = rows * len(coded.dictionary) + coded.indices.to_numpy()
        ordered = np.sort(places)
        repeats = ordered[1:][ordered[1:] == ordered[:-1]]
        self.odd[repeats // len(coded.dictionary)] = True

    def _mark_separators(self, pairs: Ints) -> None:
        """Mark rows with a separator in a name or value."""
        data = np.frombuffer(self.texts.buffers()[2], np.uint8)
        total = int(pairs.sum())
        for separator in (b"\x01", b"\x02"):
            if np.count_nonzero(data == separator[0]) != total:
                self.odd |= _compute.count_substring(self.texts, separator).to_numpy() != pairs


_COLUMNS: Final = ((names.TAGS, "tags"), (names.SHARDING_KEY, "sharding_key"), (names.KEYS, "keys"))
"""Properties that have a column, in the order in which they follow the properties of the map."""


def _first_of(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return _compute.coalesce(one, other)


def _lists(counts: Ints, items: Any) -> Any:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return _arrow.ListArray.from_arrays(_arrow.array(offsets), items)
