"""Ranges of files that are to be read by a thread of the pool. Compiled by mypyc."""

from __future__ import annotations

from typing import final


@final
class Extent:
    """A range of one file that is not in memory: `Files.warm` in a pool thread brings it there."""

    def __init__(self, path: str, offset: int, size: int) -> None:
        self.path = path
        self.offset = offset
        self.size = size
