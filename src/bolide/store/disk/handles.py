"""Caches the open handles of a store's files, and tracks the files that need a sync.

One cache serves all segment lists, so a broker with ten thousand queues keeps a bounded number of files open.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from bolide.store.disk.files import Files
from bolide.store.disk.reads import Reads


@final
class HandleCache:
    """Open handles of a store. Closes the least recently used one above `limit`, and tracks files that need a sync."""

    def __init__(self, files: Files, limit: int = 1024) -> None:
        self.files = files
        self.reads = Reads(files)
        self.limit = limit
        self._open: dict[str, int] = {}
        self._pins: dict[int, int] = {}
        """Number of other threads that use a handle."""
        self._late: dict[int, bool] = {}
        """Handles that their last `unpin` closes. If they were closed earlier, another file could get their number."""
        self._unsynced: dict[str, bool] = {}
        self._unsynced_dirs: dict[str, bool] = {}

    def get(self, path: str, size: int = -1) -> int:
        """Return the handle of a file. With `size` >= 0 a missing file is created, sparse and of that length."""
        handle = self._open.pop(path, -1)
        if handle < 0:
            while len(self._open) >= self.limit and self._close_oldest():
                pass
            handle = self.files.open(path, size >= 0, size if size > 0 else 0)
        self._open[path] = handle
        return handle

    def read(self, path: str, size: i64, offset: i64) -> bytes:
        """Return bytes of a file, fewer at its end. Blocks on the disk, or raises `ColdRead` (see `Reads`)."""
        handle = self.get(path)
        if self.reads.patient:
            return self.files.read_at(handle, size, offset)
        return self.reads.read(handle, path, size, offset)

    def _close_oldest(self) -> bool:
        for path in self._open:
            if self._open[path] not in self._pins:
                # Closing loses no data: the kernel has the written bytes, and `_unsynced` still contains the path.
                self.files.close(self._open.pop(path))
                return True
        return False

    def pin(self, path: str) -> int:
        """Return the handle of a file, kept open until `unpin`, for the thread that syncs it."""
        handle = self.get(path)
        self._pins[handle] = self._pins.get(handle, 0) + 1
        return handle

    def unpin(self, handle: int) -> None:
        """Release one pin. Without pins, a handle may be closed. It is closed now if its file was dropped."""
        left = self._pins.get(handle, 0) - 1
        if left > 0:
            self._pins[handle] = left
            return
        self._pins.pop(handle, 0)
        if self._late.pop(handle, False):
            self.files.close(handle)

    def _close(self, handle: int) -> None:
        if handle in self._pins:
            self._late[handle] = True
        else:
            self.files.close(handle)

    def drop(self, path: str) -> None:
        """Close a file that is about to be deleted. It no longer needs a sync."""
        handle = self._open.pop(path, -1)
        self._unsynced.pop(path, False)
        if handle >= 0:
            self._close(handle)

    def drop_handle(self, path: str) -> None:
        """Close the handle of a file that is not deleted. A pending sync stays registered."""
        handle = self._open.pop(path, -1)
        if handle >= 0:
            self._close(handle)

    def wrote(self, path: str) -> None:
        """Record that the file has bytes that a power failure would lose."""
        self._unsynced[path] = True

    def renamed(self, folder: str) -> None:
        """Record that names in the folder were created or removed, which a power failure would undo."""
        self._unsynced_dirs[folder] = True

    def synced(self, path: str) -> None:
        """Record that the file was synced elsewhere."""
        self._unsynced.pop(path, False)

    def take_unsynced(self) -> tuple[list[str], list[str]]:
        """Return the paths of files and folders that need a sync now, and mark them as synced."""
        paths = list(self._unsynced)
        folders = list(self._unsynced_dirs)
        self._unsynced.clear()
        self._unsynced_dirs.clear()
        return paths, folders

    def put_back(self, paths: list[str], folders: list[str]) -> None:
        """Mark files and folders from `take_unsynced` as unsynced again, because their sync did not happen."""
        for path in paths:
            self._unsynced[path] = True
        for folder in folders:
            self._unsynced_dirs[folder] = True

    def close(self) -> None:
        """Close every handle. Call once, when the store closes and no other thread uses them."""
        for handle in [*self._open.values(), *self._late]:
            self.files.close(handle)
        self._open.clear()
        self._pins.clear()
        self._late.clear()
