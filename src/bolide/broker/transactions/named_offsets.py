"""The half messages that each op record names: progress of the op queue stops before one that names an open one."""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_OPS: Final = 4096
"""Entries kept; beyond that two become one, which stands for twice as many op records."""


class NamedOffsets:
    """(offset of op records from here on, the greatest half offset they name), oldest first."""

    def __init__(self) -> None:
        self._ops: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._ops)

    def add(self, op_offset: int, greatest: int) -> None:
        """Add an op record that names half messages up to offset `greatest`."""
        self._ops.append((op_offset, greatest))
        if len(self._ops) > MAX_OPS:
            self._merge()

    def first(self, half_offset: int, otherwise: int) -> int:
        """Return the offset of the first op record that names a half message from `half_offset` on."""
        return next((offset for offset, named in self._ops if named >= half_offset), otherwise)

    def drop_before(self, half_offset: int) -> None:
        """Forget op records, from the oldest on, that name only half messages before `half_offset`."""
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()

    def _merge(self) -> None:
        """Keep half the entries, each for twice as many op records: a start may then read more than it needs."""
        merged: deque[tuple[int, int]] = deque()
        while len(self._ops) > 1:
            offset, named = self._ops.popleft()
            merged.append((offset, max(named, self._ops.popleft()[1])))
        merged.extend(self._ops)
        self._ops = merged
