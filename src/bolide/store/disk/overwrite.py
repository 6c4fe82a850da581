"""Overwrites a small file in place. It fits into one sector, so a process crash leaves the old or the new bytes."""

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
        # A power failure before this leaves the old content, the new content or a mixture; after it, the new content.
        files.datasync(handle)
    finally:
        files.close(handle)
    if fresh:
        files.sync_dir(path.rpartition("/")[0])
