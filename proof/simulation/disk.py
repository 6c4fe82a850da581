"""`Disk`: the disk of one simulated machine, with every fault a disk has, driven by a seed.

It is a `bolide.testing.files.SimulatedFiles`, whose power cuts it keeps, with these faults on top:

* any call fails, with the error and the exception that the real call would give: from its n-th time on, for k times or
  for good (`fail`), or by chance (`chances`). A failed write may have written its beginning. A failed sync writes
  some of the dirty sectors and drops the others: as on Linux the next one succeeds, and nothing of them is kept.
* a sync lies: it succeeds and keeps nothing (`lie`).
* bits flip, below what is synced or above it (`flip`, `rot`).
* calls take time (`seconds`); the world around adds up what a job's calls took (`take_seconds`).
* the machine stops at any call that changes the disk (`cut_at`), also in the middle of `write_file`, whose steps are
  calls of their own here, as on a real disk. `PowerFails` is no `Exception`, so nobody can take it for an error; until
  `power_cut` or `process_crash` every call raises it.

A disk outlives the processes that use it: `process_crash` drops the handles and locks of the one that died.
"""

from __future__ import annotations

import errno
import os
import posixpath
import random
from dataclasses import dataclass, field
from typing import Final

from bolide.store.disk.file_contract import DiskFull, FileFailed, call_failed, sync_failed
from bolide.testing.disk import SECTOR, Folder, Inode
from bolide.testing.files import SimulatedFiles

OPENING: Final = frozenset(
    {
        "open", "open_unnamed", "link_unnamed", "fetch", "scan", "warm", "read_file", "list_dir", "sync_dir",
        "write_file", "lock",
    }
)
"""Calls that need a free descriptor."""
GROWING: Final = frozenset(
    {"open", "open_unnamed", "write_at", "reserve", "reserve_new", "make_dir", "datasync", "link"}
)
"""Calls that may find no room; a sync does where the file system picks blocks late."""
CHANGING: Final = frozenset(
    {
        "create",
        "write_at",
        "truncate",
        "rename",
        "remove",
        "make_dir",
        "link",
        "link_unnamed",
        "open_unnamed",
        "reserve",
    }
)
"""Calls that a file system refuses once it is read-only."""
VERBS: Final = {
    "open": "open",
    "create": "open",
    "close": "close",
    "write_at": "write",
    "read_at": "read",
    "read_warm": "read",
    "next_data": "look into",
    "fetch": "read",
    "scan": "read",
    "warm": "read",
    "read_file": "read",
    "write_file": "write",
    "link": "write",
    "reserve": "reserve blocks of",
    "reserve_new": "reserve blocks of",
    "open_unnamed": "make a file in",
    "link_unnamed": "name",
    "truncate": "set the size of",
    "rename": "rename",
    "remove": "delete",
    "make_dir": "make the folder",
    "list_dir": "list",
    "size": "look at",
    "modified_ms": "look at",
    "disk_use": "look at the partition of",
    "lock": "lock",
}
SYNCS: Final = frozenset({"datasync", "sync_dir"})
ERRORS: Final = {name: getattr(errno, name) for name in ("EIO", "ENOSPC", "EMFILE", "EDQUOT", "EROFS")}


class PowerFails(BaseException):
    """The machine stopped in this call. No error: no program catches it, and none survives it."""


@dataclass
class Fault:
    """One fault to come: after `after` calls that it fits, the next `times` of them fail (-1 = all)."""

    error: str
    call: str = ""
    """Name of the call; "" = any."""
    path: str = ""
    """Part of the path; "" = any."""
    after: int = 0
    times: int = 1
    counts_all: bool = False
    """`after` counts every call, also those that cannot give this error."""
    hits: int = 0

    def takes(self, call: str, path: str) -> bool:
        """True when this call fails. Counts it."""
        if self.times == 0 or (self.call and self.call != call) or self.path not in path:
            return False
        if not possible(self.error, call) and not self.counts_all:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if not possible(self.error, call):
            self.times = max(self.times - 1, 0) if self.times > 0 else self.times
            return False
        if self.times > 0:
            self.times -= 1
        self.hits += 1
        return True


@dataclass
class Chances:
    """How likely each fault is at each call it fits, from 0 to 1."""

    errors: dict[str, float] = field(default_factory=dict)
    """By the name of the error."""
    lies: float = 0.0
    """A sync that keeps nothing and says it did."""
    short: float = 0.5
    """A failed write has written its beginning."""
    slow: float = 0.0
    slowest: float = 0.0
    """Seconds that a slow call takes at most."""


def possible(error: str, call: str) -> bool:
    """Whether a real disk can give this error for this call."""
    if call == "close":
        return False
    if error == "EMFILE":
        return call in OPENING or call == "create"
    if error in ("ENOSPC", "EDQUOT"):
        return call in GROWING or call == "create"
    if error == "EROFS":
        return call in CHANGING
    return True


class Disk(SimulatedFiles):
    """One machine's disk. `seed` decides what chance decides."""

    def __init__(self, seed: int, capacity: int | None = None) -> None:
        super().__init__(capacity)
        self.random = random.Random(seed)
        self.faults: list[Fault] = []
        self.chances = Chances()
        self.cut_at: int | None = None
        """The number (of `calls`) of the changing call in which the power fails."""
        self.dead = False
        """The power failed, or the process died; nothing may be called before the next boot."""
        self.syscalls = 0
        """Calls so far, those that change nothing included."""
        self.unnamed = False
        """The file system has files without names (O_TMPFILE), as those of Linux have."""
        self.told: list[str] = []
        """Faults that happened, as lines for a trace; the caller empties it."""
        self._seconds = 0.0

    def bytes_of(self, path: str, offset: int, size: int) -> bytes:
        """What a file holds, for a look from outside: no call of the disk."""
        found = self._find(path)
        return found.read(offset, size) if isinstance(found, Inode) else b""

    # -- what can happen --

    def fail(self, error: str, call: str = "", path: str = "", after: int = 0, times: int = 1) -> Fault:
        """Let calls fail: after `after` more of them the next `times` (-1 = all, until `faults_over`)."""
        fault = Fault(error, call, path, after, times)
        self.faults.append(fault)
        return fault

    def lie(self, times: int = -1) -> Fault:
        """Let syncs succeed and keep nothing."""
        return self.fail("lie", "datasync", times=times)

    def faults_over(self) -> None:
        """The disk is well again. What is lost stays lost."""
        super().faults_over()
        self.faults.clear()
        self.chances = Chances()

    def power_cut(self, seed: int) -> None:
        """Lose what was not synced, by seed, and boot."""
        super().power_cut(seed)

    def process_crash(self) -> None:
        """The process dies; the machine runs on."""
        super().process_crash()
        self.cut_at = None
        self.dead = False

    def flip(self, path: str, offset: int, bit: int = 0) -> None:
        """Change one bit of a file, on the disk and in memory."""
        found = self._find(path)
        if isinstance(found, Inode) and offset < found.size:
            found.flip(offset, bit)

    def rot(self, path: str, begin: int, end: int) -> int:
        """Flip one bit at random in a range of a file; returns where."""
        offset = self.random.randrange(begin, end)
        self.flip(path, offset, self.random.randrange(8))
        return offset

    def take_seconds(self) -> float:
        """How long the calls since the last time took."""
        taken, self._seconds = self._seconds, 0.0
        return taken

    def content(self, path: str) -> bytes | None:
        """The bytes of a file, for a judge: no call, no fault."""
        found = self._find(path)
        return found.read(0, found.size) if isinstance(found, Inode) else None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, for a judge."""
        found = self._folder(folder)
        return sorted(found.now) if found is not None else []

    def paths(self, folder: str = "/") -> list[str]:
        """Every file in a folder and below."""
        found: list[str] = []
        at = self._folder(folder)
        if at is not None:
            for name in sorted(at.now):
                path = posixpath.join(folder, name)
                found += self.paths(path) if isinstance(at.now[name], Folder) else [path]
        return found

    # -- at each call --

    def _call(self, call: str, path: str) -> None:
        """One system call begins: it may take time, and fail. Raises `FileFailed`."""
        error = self._begins(call, path)
        if error:
            self._refuse(call, path, error)

    def _begins(self, call: str, path: str) -> str:
        """The error it ends with, "" for none."""
        if self.dead:
            raise PowerFails(call)
        self.syscalls += 1
        chances = self.chances
        if chances.slow and self.random.random() < chances.slow:
            self._seconds += self.random.random() * chances.slowest
        for fault in self.faults:
            if fault.takes(call, path):
                return fault.error
        for error, chance in chances.errors.items():
            if possible(error, call) and self.random.random() < chance:
                return error
        if chances.lies and call == "datasync" and self.random.random() < chances.lies:
            return "lie"
        return ""

    def _refuse(self, call: str, path: str, error: str) -> None:
        self.told.append(f"{error} at {call} {path}")
        raised = OSError(ERRORS[error], os.strerror(ERRORS[error]))
        if call in SYNCS and error != "EMFILE":
            raise sync_failed(path, raised)
        raise call_failed(VERBS.get(call, call), path, raised)

    def _changes(self, call: str) -> None:
        if self.cut_at is not None and self.calls >= self.cut_at:
            self.dead = True
            raise PowerFails(call)
        super()._changes(call)

    def _path(self, handle: int) -> str:
        return self._handles[handle][0] if handle in self._handles else "?"

    # -- Files: bytes --

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        self._call("create" if create and self._find(path) is None else "open", path)
        return super().open(path, create, size)

    def close(self, handle: int) -> None:
        if self.dead:
            raise PowerFails("close")
        super().close(handle)

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        path = self._path(handle)
        error = self._begins("write_at", path)
        if error:
            if error != "EROFS" and self.random.random() < self.chances.short:
                data = b"".join(buffers)
                end = offset + self.random.randrange(len(data) + 1)
                end -= end % SECTOR  # the kernel gives up between two pages
                super().write_at(handle, [data[: max(end - offset, 0)]], offset)
            self._refuse("write_at", path, error)
        super().write_at(handle, buffers, offset)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self._call("read_at", self._path(handle))
        return super().read_at(handle, size, offset)

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        if self._path(handle) in self.cold:
            return None
        self._call("read_warm", self._path(handle))
        return super().read_at(handle, size, offset)

    def next_data(self, handle: int, offset: int) -> int:
        self._call("next_data", self._path(handle))
        return super().next_data(handle, offset)

    def warm(self, path: str, offset: int, size: int) -> None:
        self._call("warm", path)
        super().warm(path, offset, size)

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        self._call("fetch", path)
        found = self._find(path)
        return found.read(offset, size) if isinstance(found, Inode) else b""

    def scan(self, path: str, offset: int, size: int) -> bytes:
        self._call("scan", path)
        found = self._find(path)
        return found.read(offset, size) if isinstance(found, Inode) else b""

    def datasync(self, handle: int) -> None:
        path = self._path(handle)
        error = self._begins("datasync", path)
        if error == "lie":
            self.told.append(f"a sync of {path} keeps nothing")
            self._changes("datasync")
            return
        if error:
            inode = self._inode(handle)
            inode.sync_some(lambda: self.random.random() < 0.5)
            self._refuse("datasync", path, error)
        super().datasync(handle)

    def reserve(self, handle: int, offset: int, size: int) -> None:
        self._call("reserve", self._path(handle))
        super().reserve(handle, offset, size)

    def open_unnamed(self, folder: str) -> int:
        if not self.unnamed:
            return -1
        self._call("open_unnamed", folder)
        self._next_handle += 1
        self._handles[self._next_handle] = (folder, Inode())
        return self._next_handle

    def link_unnamed(self, handle: int, path: str) -> bool:
        folder, name = self._place(path)
        if folder is None or name in folder.now or self._begins("link_unnamed", path):
            return False
        self._changes("link_unnamed")
        inode = self._inode(handle)
        self._named((folder, name, inode))
        self._handles[handle] = (path, inode)
        return True

    def truncate(self, handle: int, size: int) -> None:
        self._call("truncate", self._path(handle))
        super().truncate(handle, size)

    # -- Files: names --

    def sync_dir(self, path: str) -> None:
        if self._folder(path) is not None:
            self._call("sync_dir", path)
        super().sync_dir(path)

    def link(self, source: str, target: str) -> bool:
        self._call("link", source)
        return super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._call("rename", source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self._call("remove", path)
        super().remove(path)

    def make_dir(self, path: str) -> None:
        if self._folder(path) is None:
            self._call("make_dir", path)
        super().make_dir(path)

    def list_dir(self, path: str) -> list[str]:
        self._call("list_dir", path)
        return super().list_dir(path)

    def size(self, path: str) -> int:
        self._call("size", path)
        return super().size(path)

    def modified_ms(self, path: str) -> int:
        self._call("modified_ms", path)
        return super().modified_ms(path)

    def read_file(self, path: str) -> bytes | None:
        self._call("read_file", path)
        return super().read_file(path)

    def write_file(self, path: str, data: bytes) -> None:
        """The steps of `RealFiles.write_file`, each of which can fail and be the last one."""
        folder, name = self._place(path)
        if folder is None:
            raise FileFailed(f"cannot write {path}: no such folder")
        try:
            fresh = self.open(path + ".tmp", True)
            try:
                self.truncate(fresh, 0)
                self.write_at(fresh, [data], 0)
                self.datasync(fresh)
            finally:
                self.close(fresh)
            if name in folder.now:
                self._call("link", path)
                self._changes("link")
                self._named((folder, name + ".bak.tmp", folder.now[name]))
                self.rename(path + ".bak.tmp", path + ".bak")
            self.rename(path + ".tmp", path)
        except FileFailed as error:
            kind = DiskFull if isinstance(error, DiskFull) else FileFailed
            raise kind(f"cannot write {path}: {error}") from error
        self.sync_dir(posixpath.dirname(path))

    # -- Files: the rest --

    def lock(self, path: str) -> int:
        self._call("lock", path)
        return super().lock(path)

    def disk_use(self, path: str) -> float:
        self._call("disk_use", path)
        return super().disk_use(path)
