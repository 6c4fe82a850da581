"""A simulated disk: files and folders, each with a durable state and the state that a running machine sees.

A file stores only written sectors, so a large sparse file takes little memory. Sectors are immutable, so the two states
of a file, and the copies of a disk, share them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SECTOR: Final = 512
_ZEROS: Final = bytes(SECTOR)


class Inode:
    """One file: the sectors and the length that a running machine sees, and the durable sectors and length."""

    def __init__(self) -> None:
        self.size = 0
        self.durable_size = 0
        self.dirty: set[int] = set()
        """Sectors whose two states may differ."""
        self.modified_ms = 0
        self._now: dict[int, bytes] = {}
        self._durable: dict[int, bytes] = {}

    def clone(self) -> Inode:
        other = Inode()
        other.size = self.size
        other.durable_size = self.durable_size
        other.dirty = set(self.dirty)
        other.modified_ms = self.modified_ms
        other._now = dict(self._now)
        other._durable = dict(self._durable)
        return other

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes as the running machine sees them, fewer at the end of the file."""
        end = min(offset + size, self.size)
        if end <= offset:
            return b""
        first, last = offset // SECTOR, (end - 1) // SECTOR
        get = self._now.get
        data = b"".join([get(sector, _ZEROS) for sector in range(first, last + 1)])
        return data[offset - first * SECTOR : end - first * SECTOR]

    def write(self, data: bytes, offset: int) -> None:
        if not data:
            return
        end = offset + len(data)
        first, last = offset // SECTOR, (end - 1) // SECTOR
        head, tail = offset - first * SECTOR, (last + 1) * SECTOR - end
        if head:
            data = self._now.get(first, _ZEROS)[:head] + data
        if tail:
            data += self._now.get(last, _ZEROS)[SECTOR - tail :]
        for sector in range(first, last + 1):
            at = (sector - first) * SECTOR
            self._now[sector] = bytes(data[at : at + SECTOR])
            self.dirty.add(sector)
        self.size = max(self.size, end)

    def resize(self, size: int) -> None:
        if size < self.size:
            _shorten(self._now, size)
            self.dirty.update(range(size // SECTOR, (self.size + SECTOR - 1) // SECTOR))
        self.size = size

    def next_data(self, offset: int) -> int:
        """Return the first offset at or after `offset` with a non-zero byte, or -1."""
        for sector in sorted(sector for sector in self._now if (sector + 1) * SECTOR > offset):
            kept = self._now[sector][max(offset - sector * SECTOR, 0) :]
            if kept.strip(b"\0"):
                return (sector + 1) * SECTOR - len(kept.lstrip(b"\0"))
        return -1

    def sync(self) -> None:
        for sector in self.dirty:
            self._keep(sector)
        self.dirty.clear()
        self.durable_size = self.size

    def sync_some(self, written: Callable[[], bool]) -> None:
        """Simulate a failed sync: `written` selects the sectors that reach the disk. As on Linux, the others are then
        treated as clean and never written."""
        for sector in sorted(self.dirty):
            if written() and sector * SECTOR < self.durable_size:
                self._keep(sector)
        self.dirty.clear()

    def _keep(self, sector: int) -> None:
        data = self._now.get(sector)
        if data is None:
            self._durable.pop(sector, None)
        else:
            self._durable[sector] = data

    def flip(self, offset: int, bit: int) -> None:
        """Flip one bit in both states of the file."""
        sector, at = divmod(offset, SECTOR)
        for state in (self._now, self._durable):
            data = bytearray(state.get(sector, _ZEROS))
            data[at] ^= 1 << bit
            state[sector] = bytes(data)

    def cut(self, survives: Callable[[], bool], sectors_at_once: int = 1) -> None:
        """Simulate a power failure. Groups of `sectors_at_once` sectors survive or are lost together,
        as `survives` decides."""
        if self.size != self.durable_size and survives():
            if self.size < self.durable_size:
                _shorten(self._durable, self.size)
            self.durable_size = self.size
        groups: dict[int, bool] = {}
        for sector in sorted(self.dirty):
            if sector * SECTOR >= min(self.size, self.durable_size):
                continue
            group = sector // sectors_at_once
            if group not in groups:
                groups[group] = survives()
            if groups[group]:
                self._keep(sector)
        _shorten(self._durable, self.durable_size)
        self._now = dict(self._durable)
        self.size = self.durable_size
        self.dirty.clear()


def _shorten(sectors: dict[int, bytes], size: int) -> None:
    """Drop all bytes beyond a length."""
    last, used = divmod(size, SECTOR)
    for sector in [sector for sector in sectors if sector > last or (sector == last and not used)]:
        del sectors[sector]
    if used and last in sectors:
        sectors[last] = sectors[last][:used] + bytes(SECTOR - used)


class Folder:
    """One folder: durable names, and the names that a running machine sees. A name refers to a file or a folder."""

    def __init__(self) -> None:
        self.durable: dict[str, Inode | Folder] = {}
        self.now: dict[str, Inode | Folder] = {}

    def sync(self) -> None:
        self.durable = dict(self.now)

    def keep(self, name: str, thing: Inode | Folder | None) -> None:
        """Make one change of a name durable; None removes the name."""
        if thing is None:
            self.durable.pop(name, None)
        else:
            self.durable[name] = thing

    def cut(self, survives: Callable[[], bool]) -> None:
        names = dict(self.durable)
        for name in sorted({*self.durable, *self.now}):
            if self.durable.get(name) is not self.now.get(name) and survives():
                found = self.now.get(name)
                if found is None:
                    del names[name]
                else:
                    names[name] = found
        self.now = names
        self.durable = dict(names)


def clone_of(thing: Inode | Folder, seen: dict[int, Inode | Folder]) -> Inode | Folder:
    """Return a copy, in which one file under two names stays one file."""
    known = seen.get(id(thing))
    if known is not None:
        return known
    if isinstance(thing, Inode):
        copy = seen[id(thing)] = thing.clone()
        return copy
    folder = Folder()
    seen[id(thing)] = folder
    folder.durable = {name: clone_of(child, seen) for name, child in thing.durable.items()}
    folder.now = {name: clone_of(child, seen) for name, child in thing.now.items()}
    return folder


def cut(
    folder: Folder,
    survives: Callable[[], bool],
    sectors_at_once: int = 1,
    names: Callable[[], bool] | None = None,
) -> None:
    """Simulate a power failure for a folder and its contents. `names` decides which names survive; the default is
    `survives`."""
    folder.cut(names if names is not None else survives)
    for name in sorted(folder.now):
        child = folder.now[name]
        if isinstance(child, Folder):
            cut(child, survives, sectors_at_once, names)
        else:
            child.cut(survives, sectors_at_once)


def names_of(folder: Folder, inode: Inode) -> int:
    """Return the number of names of a file in the folder and its subfolders."""
    return sum(
        names_of(child, inode) if isinstance(child, Folder) else child is inode for child in folder.now.values()
    )


def used_by(folder: Folder) -> int:
    """Return the total size in bytes of all files in the folder and its subfolders."""
    return sum(child.size if isinstance(child, Inode) else used_by(child) for child in folder.now.values())
