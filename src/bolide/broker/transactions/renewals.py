"""Renewals: a half message is stored again for each check, so several records may represent one message."""

from __future__ import annotations

from msgspec import Struct


class Half(Struct, frozen=True):
    """Position of a pending half message."""

    queue_offset: int
    physical_offset: int
    size: int

    @property
    def end_offset(self) -> int:
        """Physical offset after the record."""
        return self.physical_offset + self.size


class Renewals:
    """Pending half messages that were stored again since the start, by the offsets of all their records."""

    def __init__(self) -> None:
        self.newest: dict[int, Half] = {}
        """Offset of a pending half message -> its newest record."""
        self._older: dict[int, list[int]] = {}
        """Offset of the newest record -> offsets of the earlier ones, oldest first."""

    def __len__(self) -> int:
        return len(self.newest) + len(self._older)

    def follow(self, old: Half, new: Half) -> None:
        """Record that `old` was stored again as `new`."""
        before = [*self._older.pop(old.queue_offset, []), old.queue_offset]
        self._older[new.queue_offset] = before
        for at in before:
            self.newest[at] = new

    def end(self, queue_offset: int) -> None:
        """Remove the records before this one, because the half message has ended."""
        for at in self._older.pop(queue_offset, []):
            del self.newest[at]

    def take_back(self, old: Half, written: int) -> None:
        """Make `old` the newest record again if its successor ends after `written`: that write failed."""
        new = self.newest.get(old.queue_offset)
        if new is None or new.end_offset <= written:
            return
        before = self._older.pop(new.queue_offset)[:-1]
        del self.newest[old.queue_offset]
        if before:
            self._older[old.queue_offset] = before
        for at in before:
            self.newest[at] = old
