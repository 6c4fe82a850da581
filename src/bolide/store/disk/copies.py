"""Copies log bytes to a file before they are overwritten or truncated, and files of a store into another folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bolide.store.disk.file_contract import FileFailed, Files

PART: Final = ".part"
"""Suffix of a copy that is not complete. A crash leaves such a file."""
_CHUNK: Final = 1024 * 1024
_PAGE: Final = 4096


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


def copy_file(files: Files, source: str, target: str, size: int, copied: Callable[[int], None]) -> bool:
    """Copy the first `size` bytes of a file to a new file of the same length; later bytes of the copy are zeros.

    Holes remain holes. `copied` is called with the number of bytes of each write. The caller syncs the file and its
    folder.
    Return False if there is no such file, also if it is deleted before it is opened. Raises `FileFailed`.
    """
    length = files.size(source)
    if length < 0:
        return False
    try:
        reader = files.open(source)
    except FileFailed:
        if files.size(source) < 0:
            return False
        raise
    try:
        writer = files.open(target, True, length)
        try:
            at = 0
            while at < size and 0 <= (at := files.next_data(reader, at)) < size:
                data = files.read_at(reader, min(_CHUNK, size - at), at)
                copied(_write_data(files, writer, data, at))
                at += len(data)
        finally:
            files.close(writer)
    finally:
        files.close(reader)
    return True


def _write_data(files: Files, handle: int, data: bytes, at: int) -> int:
    """Write the pages of `data` that contain other bytes than zeros, one write per range. Return their size."""
    first = end = written = 0
    while end < len(data):
        stop = min(end + _PAGE, len(data))
        if data.count(0, end, stop) == stop - end:
            if first < end:
                files.write_at(handle, [data[first:end]], at + first)
                written += end - first
            first = stop
        end = stop
    if first < end:
        files.write_at(handle, [data[first:end]], at + first)
        written += end - first
    return written


def _write(files: Files, read: Callable[[int, int], bytes], path: str, begin: int, end: int) -> None:
    handle = files.open(path, True)
    try:
        for at in range(begin, end, _CHUNK):
            files.write_at(handle, [read(at, min(_CHUNK, end - at))], at - begin)
        files.datasync(handle)
    finally:
        files.close(handle)
