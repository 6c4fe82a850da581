"""Writes bytes at given positions of files of fixed size, and syncs them once.

The previous state determines the position of every write, so a second attempt of a task, or of a batch after a crash,
writes the same bytes. Files have the full size that a broker uses, with holes for unwritten parts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_MANY: Final = 64
"""Number of files above which one call syncs all file systems of the host."""


class OutputFiles:
    """The files of a task below a folder."""

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
        """Return the path of a file."""
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
        """Sync all writes so far, including the names of new files."""
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
    """Replace a small file atomically and durably."""
    fresh = Path(f"{path}.new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    # After a crash here, the old file exists, and the next call overwrites the new one next to it.
    os.replace(fresh, path)
    handle = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
