"""Overwrites a small file in place: one sector, so that a crash of the process leaves the old bytes or the new ones."""

from __future__ import annotations

from bolide.store.disk.files import Files


def overwrite(files: Files, path: str, data: bytes) -> None:
    """Write `data` at the start of a file, which is created if needed, and sync it. Raises `FileFailed`.

    A loss of power may leave a mixture of both. A new file survives it once the caller has synced the folder.
    """
    handle = files.open(path, create=True)
    try:
        files.write_at(handle, [data], 0)
        files.datasync(handle)
    finally:
        files.close(handle)
