"""Copies log bytes to a file before they are overwritten or truncated."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bolide.store.disk.file_contract import FileFailed, Files

PART: Final = ".part"
"""Suffix of a copy that is not complete. A crash leaves such a file."""
_CHUNK: Final = 1024 * 1024


def copy_bytes(files: Files, read: Callable[[int, int], bytes], path: str, begin: int, end: int) -> None:
    """Write the bytes that `read(offset, size)` returns between two offsets to the file `path`, and sync the file. The
    file gets its name once it is complete.

    The caller syncs the folder. Raises `FileFailed`; the incomplete copy is then deleted.
    """
    part = path + PART
    files.remove(part)
    try:
        _write(files, read, part, begin, end)
        files.rename(part, path)
    except FileFailed:
        with suppress(FileFailed):
            files.remove(part)  # so that repeated attempts do not fill the disk
        raise


def _write(files: Files, read: Callable[[int, int], bytes], path: str, begin: int, end: int) -> None:
    handle = files.open(path, True)
    try:
        for at in range(begin, end, _CHUNK):
            files.write_at(handle, [read(at, min(_CHUNK, end - at))], at - begin)
        files.datasync(handle)
    finally:
        files.close(handle)
