"""The open handles of a store's files, least recently used closed first, and which files still need a sync.

One cache serves all lists of segments, so a broker with ten thousand queues keeps a bounded number of files open.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from bolide.store.disk.files import Files
from bolide.store.disk.reads import Reads


@final
class HandleCache:
    """The open handles of a store, least recently used closed first; and which files still need a datasync."""

    def __init__(self, files: Files, limit: int = 1024) -> None:
        self.files = files
        self.reads = Reads(files)
        self.limit = limit
        self._open: dict[str, int] = {}
        self._pins: dict[int, int] = {}
        """How many other threads use a handle."""
        self._late: dict[int, bool] = {}
        """Handles that their last `unpin` closes: closed earlier, the number could already be another file's."""
        self._unsynced: dict[str, bool] = {}
        self._unsynced_dirs: dict[str, bool] = {}

    def get(self, path: str, size: int = -1) -> int:
        """The handle of a file; `size` >= 0 creates it, sparse and of that length, when it is missing."""
        handle = self._open.pop(path, -1)
        if handle < 0:
            while len(self._open) >= self.limit and self._close_oldest():
                pass
            handle = self.files.open(path, size >= 0, size if size > 0 else 0)
        self._open[path] = handle
        return handle

    def read(self, path: str, size: i64, offset: i64) -> bytes:
        """Bytes of a file, fewer at its end. Waits for the disk, or raises `ColdRead`: see `Reads`."""
        handle = self.get(path)
        if self.reads.patient:
            return self.files.read_at(handle, size, offset)
        return self.reads.read(handle, path, size, offset)

    def _close_oldest(self) -> bool:
        for path in self._open:
            if self._open[path] not in self._pins:
                # Closing loses nothing: what was written is the kernel's, and `_unsynced` still names the path.
                self.files.close(self._open.pop(path))
                return True
        return False

    def pin(self, path: str) -> int:
        """The handle of a file, kept open until `unpin`: for the thread that syncs it."""
        handle = self.get(path)
        self._pins[handle] = self._pins.get(handle, 0) + 1
        return handle

    def unpin(self, handle: int) -> None:
        """End one use; a file without uses may be closed, and is closed now if it was dropped meanwhile."""
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
        """Close the file, for it is about to be deleted; nothing of it needs a sync any more."""
        handle = self._open.pop(path, -1)
        self._unsynced.pop(path, False)
        if handle >= 0:
            self._close(handle)

    def drop_handle(self, path: str) -> None:
        """Close the file, which stays: what it needs of syncing is still remembered."""
        handle = self._open.pop(path, -1)
        if handle >= 0:
            self._close(handle)

    def wrote(self, path: str) -> None:
        """Remember that the file has bytes that a power cut would lose."""
        self._unsynced[path] = True

    def renamed(self, folder: str) -> None:
        """Remember that names in the folder were made or removed and a power cut would undo that."""
        self._unsynced_dirs[folder] = True

    def synced(self, path: str) -> None:
        """The file has been synced by someone else."""
        self._unsynced.pop(path, False)

    def take_unsynced(self) -> tuple[list[str], list[str]]:
        """The paths of files and of folders that need a sync now; from here on they count as synced."""
        paths = list(self._unsynced)
        folders = list(self._unsynced_dirs)
        self._unsynced.clear()
        self._unsynced_dirs.clear()
        return paths, folders

    def put_back(self, paths: list[str], folders: list[str]) -> None:
        """What `take_unsynced` returned was not synced; nothing is lost, it still needs a sync."""
        for path in paths:
            self._unsynced[path] = True
        for folder in folders:
            self._unsynced_dirs[folder] = True

    def close(self) -> None:
        """Close every handle; used once, at the end of the store, when no other thread uses one any more."""
        for handle in [*self._open.values(), *self._late]:
            self.files.close(handle)
        self._open.clear()
        self._pins.clear()
        self._late.clear()
