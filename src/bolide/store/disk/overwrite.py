"""Overwrites a small file in place: one sector, so that a crash of the process leaves the old bytes or the new ones."""

from __future__ import annotations

from bolide.store.disk.files import Files


def overwrite(files: Files, path: str, data: bytes) -> None:
    """Write `data` at the start of a file and sync it. Creates a missing file and syncs its folder.

    A power failure may leave a mixture of both contents. Thread-safe. Raises `FileFailed`.
    """
    fresh = files.size(path) < len(data)
    handle = files.open(path, fresh, len(data))
    try:
        files.write_at(handle, [data], 0)
        # A power failure before this leaves the old content, after it the new content.
        files.datasync(handle)
    finally:
        files.close(handle)
    if fresh:
        files.sync_dir(path.rpartition("/")[0])
