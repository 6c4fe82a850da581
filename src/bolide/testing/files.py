"""`SimulatedFiles`: a disk in memory that can lose power, fill up, fail and be slow; and `check_files`, the contract.

The fault model: every file has *durable* bytes, and on top of them writes that are not synced yet. Every folder has
durable names, and on top of them created, renamed and removed names that are not synced yet.

* `datasync` makes the bytes and the length of one file durable, `sync_dir` the names of one folder, and `write_file`
  both. No other call makes anything durable.
* `power_cut(seed)` decides independently for each 512-byte sector of each unsynced write whether it survives, so writes
  are lost, torn and reordered (`sectors_at_once` = 8 for a disk of 4096-byte sectors). Lengths survive or not in the
  same way. A file whose name does not survive is lost with all its bytes, synced or not.
* By default, names are *strict*: each survives independently, so that one half of a rename may survive. With
  `journaled_names`, the file system behaves like ext4 and xfs: names survive in the order of their changes. Each rename
  is atomic, and any sync makes all earlier changes of names durable.
* Outside the model: bit rot, a sync that falsely reports success, names swapped between folders.

`clone()` copies the whole disk, so that one state can lose power in many ways. The store must handle a full disk
(`capacity` in bytes), calls that fail once (`fail_next`), and paths that are not in memory (`cold`). `calls` counts
every call that can change the disk. `stop_after` is the number of such calls after which the next one stops the
machine.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from bolide.store.disk.files import DiskFull, FileFailed, FileLocked, SyncFailed
from bolide.testing.check_files import check_files
from bolide.testing.disk import SECTOR, Folder, Inode, names_of
from bolide.testing.file_system import FileSystem, path_parts

__all__ = ["SECTOR", "SimulatedFiles", "Stopped", "check_files"]


class Stopped(Exception):
    """The simulated machine stopped here: see `SimulatedFiles.stop_after`."""


class SimulatedFiles(FileSystem):
    """`bolide.store.disk.files.Files` on a disk in memory. Not safe for several threads."""

    def __init__(self, capacity: int | None = None) -> None:
        super().__init__()
        self.capacity = capacity
        self.calls = 0
        self.stop_after: int | None = None
        self.now_ms = 0
        """The current time of the file system's clock in ms, for modification times."""
        self.cold: set[str] = set()
        """Paths whose bytes are not in memory until `warm` reads them."""
        self.use: float | None = None
        """Result of `disk_use`, or None for the used part of the capacity."""
        self.before_change: Callable[[str], None] | None = None
        """Called with the name of each call that can change the disk, before the change."""
        self.synced: list[str] = []
        """The path of every datasync, in order."""
        self.boots = 0
        """Number of restarts of the machine."""
        self._handles: dict[int, tuple[str, Inode]] = {}
        self._locks: dict[int, str] = {}
        self._next_handle = 3
        self._failures: dict[str, list[FileFailed]] = {}

    # -- control --

    def clone(self) -> SimulatedFiles:
        """Return a copy of the disk, without open handles and locks."""
        other = SimulatedFiles(self.capacity)
        other.now_ms = self.now_ms
        other.boots = self.boots
        self._copy_to(other)
        return other

    def power_cut(self, seed: int) -> None:
        """Simulate a power failure, which loses unsynced changes: all with seed 0, none with seed 1, and a part with
        other seeds."""
        chance = random.Random(seed)
        part = chance.random()
        survives: Callable[[], bool] = {0: lambda: False, 1: lambda: True}.get(seed, lambda: chance.random() < part)
        self._lose(survives)
        self.boots += 1
        self.process_crash()

    def process_crash(self) -> None:
        """Simulate a crash of the process: handles and locks are lost, all bytes and names survive."""
        self._handles.clear()
        self._locks.clear()
        self.stop_after = None

    def fail_next(self, call: str, error: FileFailed | None = None) -> None:
        """Let the next call with this name (`datasync`, `write_at`, `reserve`, ...) fail once."""
        if error is None:
            kind = SyncFailed if call in ("datasync", "sync_dir", "sync_file_systems") else FileFailed
            error = kind(f"cannot {call}: simulated I/O error")
        self._failures.setdefault(call, []).append(error)

    def open_handles(self) -> int:
        """Return the number of open handles."""
        return len(self._handles)

    def faults_over(self) -> None:
        """Cancel pending injected faults."""
        self._failures.clear()

    def _changes(self, call: str) -> None:
        if self.stop_after is not None and self.calls >= self.stop_after:
            raise Stopped(call)
        if self.before_change is not None:
            self.before_change(call)
        self.calls += 1
        self._fails(call)

    def _fails(self, call: str) -> None:
        waiting = self._failures.get(call)
        if waiting:
            raise waiting.pop(0)

    def _room(self, more: int) -> None:
        if self.capacity is not None and more > 0 and self.used() + more > self.capacity:
            raise DiskFull("cannot write: the simulated disk is full")

    # -- Files: bytes --

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        folder, name = self._place(path)
        found = folder.now.get(name) if folder is not None else None
        if isinstance(found, Folder):
            raise FileFailed(f"cannot open {path}: it is a folder")
        if found is None or (create and size > 0 and not found.size):
            if not create or folder is None:
                raise FileFailed(f"cannot open {path}: no such file")
            self._changes("open")
            self._room(size)
            if found is None:
                found = Inode()
                found.modified_ms = self.now_ms
                self._named((folder, name, found))
            found.resize(size)
        self._next_handle += 1
        self._handles[self._next_handle] = (path, found)
        return self._next_handle

    def close(self, handle: int) -> None:
        self._inode(handle)
        del self._handles[handle]

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        inode = self._inode(handle)
        self._changes("write_at")
        data = b"".join(buffers)
        self._room(offset + len(data) - inode.size)
        inode.write(data, offset)
        inode.modified_ms = self.now_ms

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self._fails("read_at")
        return self._inode(handle).read(offset, size)

    def next_data(self, handle: int, offset: int) -> int:
        return self._inode(handle).next_data(offset)

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        if self._handles[handle][0] in self.cold:
            return None
        return self.read_at(handle, size, offset)

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        data = self.read_warm(handle, size, offset)
        return memoryview(data) if data is not None and len(data) == size else None

    def warm(self, path: str, offset: int, size: int) -> None:
        self.cold.discard(path)

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        data = self.read_file(path)
        return b"" if data is None else data[offset : offset + size]

    def scan(self, path: str, offset: int, size: int) -> bytes:
        self._fails("scan")
        found = self._find(path)
        return found.read(offset, size) if isinstance(found, Inode) else b""

    def datasync(self, handle: int) -> None:
        inode = self._inode(handle)
        self._changes("datasync")
        self.synced.append(self._handles[handle][0])
        inode.sync()
        self._sync_names(None)

    def sync_file_systems(self, folders: set[str]) -> bool:
        return False  # so that a power failure loses every file that was not synced separately

    def reserve(self, handle: int, offset: int, size: int) -> None:
        self._inode(handle)
        self._changes("reserve")

    def reserve_new(self, handle: int, size: int) -> None:
        self.reserve(handle, 0, size)

    def open_unnamed(self, folder: str) -> int:
        return -1  # as on file systems without unnamed files: files that threads create have names immediately

    def link_unnamed(self, handle: int, path: str) -> bool:
        return False

    def truncate(self, handle: int, size: int) -> None:
        inode = self._inode(handle)
        self._changes("truncate")
        self._room(size - inode.size)
        inode.resize(size)

    # -- Files: names --

    def sync_dir(self, path: str) -> None:
        folder = self._folder(path)
        if folder is None:
            return
        self._changes("sync_dir")
        self._sync_names(folder)

    def link(self, source: str, target: str) -> bool:
        found = self._find(source)
        folder, name = self._place(target)
        if folder is None or not isinstance(found, Inode) or name in folder.now:
            raise FileFailed(f"cannot link {source}: no such file, or {target} exists")
        self._changes("link")
        self._named((folder, name, found))
        return True

    def rename(self, source: str, target: str) -> None:
        folder, name = self._place(source)
        into, as_name = self._place(target)
        if folder is None or into is None or name not in folder.now:
            raise FileFailed(f"cannot rename {source}: no such file")
        self._changes("rename")
        self._named((into, as_name, folder.now[name]), (folder, name, None))

    def remove(self, path: str) -> None:
        folder, name = self._place(path)
        if folder is None or name not in folder.now:
            return
        found = folder.now[name]
        if isinstance(found, Folder) and found.now:
            raise FileFailed(f"cannot delete {path}: the folder is not empty")
        self._changes("remove")
        self._named((folder, name, None))

    def make_dir(self, path: str) -> None:
        folder = self._root
        for name in path_parts(path):
            found = folder.now.get(name)
            if found is None:
                self._changes("make_dir")
                found = Folder()
                self._named((folder, name, found))
            if isinstance(found, Inode):
                raise FileFailed(f"cannot make the folder {path}: a file is in the way")
            folder = found

    def list_dir(self, path: str) -> list[str]:
        folder = self._folder(path)
        return sorted(folder.now) if folder is not None else []

    def size(self, path: str) -> int:
        found = self._find(path)
        return found.size if isinstance(found, Inode) else -1

    def links(self, path: str) -> int:
        found = self._find(path)
        return names_of(self._root, found) if isinstance(found, Inode) else 0

    def modified_ms(self, path: str) -> int:
        found = self._find(path)
        return found.modified_ms if isinstance(found, Inode) else -1

    def read_file(self, path: str) -> bytes | None:
        found = self._find(path)
        return found.read(0, found.size) if isinstance(found, Inode) else None

    def write_file(self, path: str, data: bytes) -> None:
        folder, name = self._place(path)
        if folder is None:
            raise FileFailed(f"cannot write {path}: no such folder")
        self._changes("write_file")
        self._room(len(data))
        fresh = Inode()
        fresh.modified_ms = self.now_ms
        fresh.write(data, 0)
        fresh.sync()
        if name in folder.now:
            self._named((folder, name + ".bak", folder.now[name]))
        self._named((folder, name, fresh))
        self._sync_names(folder)

    # -- Files: the rest --

    def lock(self, path: str) -> int:
        if path in self._locks.values():
            raise FileLocked(f"{path} is locked already; close the other store first")
        if self.size(path) != 4:
            handle = self.open(path, True, 4)
            self.write_at(handle, [b"lock"], 0)
            self.close(handle)
        self._next_handle += 1
        self._locks[self._next_handle] = path
        return self._next_handle

    def unlock(self, handle: int) -> None:
        del self._locks[handle]

    def disk_use(self, path: str) -> float:
        self._fails("disk_use")
        if self.use is not None:
            return self.use
        return self.used() / self.capacity if self.capacity else 0.0

    def process_id(self) -> int:
        return 4711

    def boot_id(self, path: str) -> str:
        return f"boot-{self.boots}"

    def local_time(self, time_ms: int) -> str:
        return time.strftime("%Y%m%d%H%M%S", time.gmtime(time_ms // 1000)) + str(time_ms % 1000).zfill(3)

    # -- inside --

    def _inode(self, handle: int) -> Inode:
        found = self._handles.get(handle)
        if found is None:
            raise FileFailed(f"cannot use handle {handle}: it is closed")
        return found[1]
