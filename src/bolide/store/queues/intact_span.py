"""Remembers the records of a queue that have been compared with their CRCs since they were read into memory."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class IntactSpan:
    """A range of queue offsets. It is no longer valid once the log's count of `evictions` changes, because its records
    may then come from the disk."""

    def __init__(self) -> None:
        self._begin: i64 = 0
        self._end: i64 = 0
        self._evictions: i64 = -1

    def covers(self, begin: i64, end: i64, evictions: i64) -> bool:
        """Return whether all records from `begin` up to `end` have been compared."""
        return evictions == self._evictions and self._begin <= begin and end <= self._end

    def extend(self, begin: i64, end: i64, evictions: i64) -> None:
        """Record that these records are intact. A range that does not continue the known one replaces it."""
        if evictions != self._evictions or not self._begin <= begin <= self._end:
            self._begin, self._end, self._evictions = begin, end, evictions
        elif end > self._end:
            self._end = end
