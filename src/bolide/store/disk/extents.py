"""Ranges of files for a pool thread to read."""

from __future__ import annotations

from typing import final


@final
class Extent:
    """A range of one file that is not in memory; `Files.warm` loads it in a pool thread."""

    def __init__(self, path: str, offset: int, size: int) -> None:
        self.path = path
        self.offset = offset
        self.size = size
