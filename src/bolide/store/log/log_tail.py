"""Cache of the newest bytes of the log, as written to the kernel, so that readers at its end need no system call."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64

_OVERHEAD: Final = 64
"""Bytes of memory per piece in addition to its content."""
_JOINED: Final = 64 * 1024
"""Maximum size of a range that `view` joins from several pieces."""
_FORGOTTEN: Final = 256
"""The lists are shortened after this number of dropped pieces."""


@final
class LogTail:
    """In-memory cache of the newest `limit` bytes of a log. Offsets are physical."""

    def __init__(self, limit: i64) -> None:
        self.size: i64 = 0
        """Memory in use, in bytes."""
        self._limit: i64 = limit
        self._end: i64 = -1
        self._starts: list[int] = []
        self._pieces: list[bytes] = []
        self._first: int = 0

    @property
    def begin(self) -> i64:
        """Offset of the oldest byte in memory, or -1."""
        return self._starts[self._first] if self._first < len(self._starts) else -1

    def add(self, start: i64, data: bytes) -> None:
        """Add bytes that the kernel has accepted. Bytes that do not continue the cached range replace it."""
        if start != self._end:
            self.clear()
        size: i64 = len(data)
        if size + _OVERHEAD > self._limit:
            self.clear()
            return
        self._starts.append(int(start))
        self._pieces.append(data)
        self._end = start + size
        self.size += size + _OVERHEAD
        while self.size > self._limit:
            self.size -= len(self._pieces[self._first]) + _OVERHEAD
            self._pieces[self._first] = b""
            self._first += 1
        if self._first >= _FORGOTTEN:
            del self._starts[: self._first]
            del self._pieces[: self._first]
            self._first = 0

    def clear(self) -> None:
        """Drop all bytes."""
        self._starts = []
        self._pieces = []
        self._first = 0
        self._end = -1
        self.size = 0

    def view(self, begin: i64, size: i64) -> memoryview | None:
        """Return a range of the log, or None if a part is not in the cache."""
        end = begin + size
        first = self._first
        starts = self._starts
        if size <= 0 or end > self._end or begin < starts[first]:
            return None
        at = bisect_right(starts, int(begin), first) - 1
        piece = self._pieces[at]
        within = begin - starts[at]
        if within + size <= len(piece):
            return memoryview(piece)[within : within + size]
        if size > _JOINED:
            return None
        parts = [piece[within:]]
        left: i64 = size - len(parts[0])
        while left > 0:
            at += 1
            piece = self._pieces[at]
            parts.append(piece if left >= len(piece) else piece[:left])
            left -= len(piece)
        return memoryview(b"".join(parts))
