"""Filter bitmaps of extension units: the result of each SQL92 filter of a topic for each of its records.

Follows RocketMQ's CommitLogDispatcherCalcBitMap, with the filters of the store's consumerFilter.json. A broker applies
a filter only after its registration. This module applies it to every record, so older units may have more bits than a
broker's. In topics with filters, expressions are evaluated record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bolide.dispatch.rebuild import FilterEntry
from bolide.dispatch.sql92 import EvaluationError, Sql92Error, compile_sql92
from bolide.layout.bloom import empty_bitmap, set_bits
from bolide.layout.properties import parse_properties_bytes
from bolide.remoting.json import parse_long

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bolide.layout.columns import RecordColumns
    from bolide.layout.shape import StoreShape

SQL92: Final = "SQL92"
_SETTLED_MS: Final = 1000
"""Time in ms after the registration of a filter from which a broker certainly applies it."""


@dataclass(frozen=True)
class TopicFilter:
    """The filter of a group at a topic, as text, so that it is picklable. `born` is its registration time in ms."""

    topic: str
    group: str
    expression: str
    bit_positions: tuple[int, ...]
    born: int


def read_filters(root: Path, shape: StoreShape) -> tuple[TopicFilter, ...]:
    """Return the filters of consumerFilter.json that fit this shape's bitmaps. A broker applies the same filters."""
    path = root / "config" / "consumerFilter.json"
    if not (shape.enable_consume_queue_ext and shape.enable_calc_filter_bit_map) or not path.exists():
        return ()
    found = []
    topics = parse_long(path.read_bytes()).get("filterDataByTopic") or {}
    for topic, of_topic in sorted(topics.items()):
        for group, one in sorted((of_topic.get("groupFilterData") or {}).items()):
            bloom = one.get("bloomFilterData") or {}
            if one.get("expressionType", SQL92) == SQL92 and bloom.get("bitNum") == shape.bloom.bits:
                positions = tuple(int(bit) for bit in bloom.get("bitPos") or ())
                born = int(one.get("bornTime") or 0)
                found.append(TopicFilter(topic, group, str(one.get("expression")), positions, born))
    return tuple(found)


class Bitmaps:
    """Computes the bitmaps of records, with `width` bytes per record, or 0 if no topic has a filter.

    With `audit`, the bits that a broker must have set follow: the bits of filters that were registered when it stored
    the record.
    """

    def __init__(self, filters: Sequence[TopicFilter], shape: StoreShape, audit: bool = False) -> None:
        self._one = width(filters, shape)
        self._audit = audit
        self.width = 2 * self._one if audit else self._one
        self._bits = shape.bloom.bits
        self._entries: dict[str, list[tuple[int, FilterEntry]]] = {}
        for one in filters:
            entries = self._entries.setdefault(one.topic, [])
            try:
                expression = compile_sql92(one.expression)
            except Sql92Error:
                continue  # a broker cannot compile the filter either, and does not set its bits
            entries.append((one.born, FilterEntry(one.bit_positions, partial(_matches, expression.evaluate))))

    def of(self, records: RecordColumns) -> NDArray[np.uint8]:
        """Return one row per record, with zeros for topics without filters."""
        made = np.zeros((len(records), self.width), np.uint8)
        if not self.width:
            return made
        encoded: Any = records.topic.dictionary_encode()
        codes = encoded.indices.to_numpy()
        times = records.numbers("store_timestamp")
        for code, topic in enumerate(encoded.dictionary.to_pylist()):
            entries = self._entries.get(topic)
            if entries:
                for row in np.flatnonzero(codes == code).tolist():
                    properties = parse_properties_bytes(records.raw_properties[row].as_py() or b"")
                    bitmap, known = empty_bitmap(self._bits), empty_bitmap(self._bits)
                    for born, entry in entries:
                        if entry.matches(properties, properties.get("TAGS", "")):
                            set_bits(bitmap, entry.bit_positions)
                            if times[row] > born + _SETTLED_MS:
                                set_bits(known, entry.bit_positions)
                    both = bytes(bitmap) + (bytes(known) if self._audit else b"")
                    made[row] = np.frombuffer(both, np.uint8)
        return made


def width(filters: Sequence[TopicFilter], shape: StoreShape) -> int:
    """Return the size of a bitmap in bytes, or 0 without filters."""
    return len(empty_bitmap(shape.bloom.bits)) if filters else 0


def _matches(evaluate: Callable[[Mapping[str, str]], bool | None], properties: Mapping[str, str], tags: str) -> bool:
    try:
        return evaluate(properties) is True
    except EvaluationError:
        return False
