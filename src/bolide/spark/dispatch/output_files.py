"""Writes bytes at given positions of files of fixed size, and syncs them once.

The position of every write is computed from the previous state, so a second attempt of a task, or of a batch after a
crash, writes the same bytes again. Files have the full size that a broker gives them; unwritten parts stay holes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_MANY: Final = 64
"""For more files than this, one call syncs the whole machine."""


class OutputFiles:
    """The files of one task below a folder."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._written: set[str] = set()
        self._folders: set[str] = set()

    def write(self, name: str, at: int, buffers: Sequence[bytes | memoryview], size: int) -> None:
        """Write at byte `at` of a file with `size` bytes, which is created if it does not exist."""
        path = f"{self._root}/{name}"
        handle = self._open(path)
        try:
            if os.fstat(handle).st_size < size:
                os.ftruncate(handle, size)
            for buffer in buffers:
                rest = memoryview(buffer)
                while len(rest):
                    written = os.pwrite(handle, rest, at)
                    rest, at = rest[written:], at + written
        finally:
            os.close(handle)
        self._written.add(path)

    def path(self, name: str) -> str:
        """Where a file is."""
        return f"{self._root}/{name}"

    def _open(self, path: str) -> int:
        try:
            return os.open(path, os.O_RDWR)
        except FileNotFoundError:
            folder = os.path.dirname(path)
            os.makedirs(folder, exist_ok=True)
            while len(folder) >= len(self._root) and folder not in self._folders:
                self._folders.add(folder)
                folder = os.path.dirname(folder)
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def sync(self) -> None:
        """Make everything written so far durable, names of new files included."""
        if len(self._written) + len(self._folders) > _MANY:
            os.sync()
        else:
            for path in [*sorted(self._written), *sorted(self._folders, reverse=True)]:
                handle = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        self._written.clear()
        self._folders.clear()


def replace_file(path: str, data: bytes) -> None:
    """Replace a small file, completely and durably or not at all."""
    fresh = Path(f"{path}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # Crash here: the old file is there, and the new one next to it is overwritten next time.
    os.replace(fresh, path)
    handle = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
