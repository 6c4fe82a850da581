"""Copies log bytes to a file before they are overwritten or truncated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bolide.store.disk.file_contract import Files

_CHUNK: Final = 1024 * 1024


def copy_bytes(files: Files, read: Callable[[int, int], bytes], path: str, begin: int, end: int) -> None:
    """Write the bytes that `read(offset, size)` returns between two offsets to the file `path`, and sync the file.

    The caller syncs the folder. Raises `FileFailed` and leaves an incomplete copy.
    """
    handle = files.open(path, True)
    try:
        for at in range(begin, end, _CHUNK):
            files.write_at(handle, [read(at, min(_CHUNK, end - at))], at - begin)
        files.datasync(handle)
    finally:
        files.close(handle)
