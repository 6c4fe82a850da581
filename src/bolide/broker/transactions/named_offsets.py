"""Half messages named by each op record: progress of the op queue stops before a record that names a pending one."""

from __future__ import annotations

from collections import deque
from typing import Final

MAX_OPS: Final = 4096
"""Maximum number of entries. Above it, entries are merged in pairs."""


class NamedOffsets:
    """Pairs (start offset of op records, highest half offset that they name), oldest first."""

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
        """Return the offset of the first op record that names a half message at or after `half_offset`.

        Return `otherwise` if there is no such record.
        """
        return next((offset for offset, named in self._ops if named >= half_offset), otherwise)

    def drop_before(self, half_offset: int) -> None:
        """Remove op records, oldest first, that name only half messages before `half_offset`."""
        while self._ops and self._ops[0][1] < half_offset:
            self._ops.popleft()

    def _merge(self) -> None:
        """Merge entries in pairs. A start may then read more records than necessary."""
        merged: deque[tuple[int, int]] = deque()
        while len(self._ops) > 1:
            offset, named = self._ops.popleft()
            merged.append((offset, max(named, self._ops.popleft()[1])))
        merged.extend(self._ops)
        self._ops = merged
