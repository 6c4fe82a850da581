"""The contents of a simulated disk: files and folders, each with its durable state and that of a running machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SECTOR: Final = 512


class Inode:
    """One file: durable bytes, and the state a running machine sees."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.now = bytearray()
        self.dirty: set[int] = set()
        self.modified_ms = 0

    def clone(self) -> Inode:
        other = Inode()
        other.durable = bytearray(self.durable)
        other.now = bytearray(self.now)
        other.dirty = set(self.dirty)
        other.modified_ms = self.modified_ms
        return other

    def write(self, data: bytes, offset: int) -> None:
        if offset > len(self.now):
            self.now.extend(bytes(offset - len(self.now)))
        self.now[offset : offset + len(data)] = data
        self.dirty.update(range(offset // SECTOR, (offset + len(data) + SECTOR - 1) // SECTOR))

    def resize(self, size: int) -> None:
        if size < len(self.now):
            del self.now[size:]
        else:
            self.now.extend(bytes(size - len(self.now)))

    def sync(self) -> None:
        if len(self.durable) != len(self.now):
            self.durable = bytearray(self.now)
        else:
            for sector in self.dirty:
                part = slice(sector * SECTOR, (sector + 1) * SECTOR)
                self.durable[part] = self.now[part]
        self.dirty.clear()

    def cut(self, survives: Callable[[], bool]) -> None:
        """What the disk holds after the power came back."""
        after = self.durable
        if len(self.now) != len(after) and survives():
            del after[len(self.now) :]
            after.extend(bytes(len(self.now) - len(after)))
        for sector in sorted(self.dirty):
            at = sector * SECTOR
            if at < len(after) and survives():
                part = self.now[at : min(at + SECTOR, len(after))]
                after[at : at + len(part)] = part
        self.now = bytearray(after)
        self.dirty = set()


class Folder:
    """One folder: durable names, and those a running machine sees. A name holds a file or a folder."""

    def __init__(self) -> None:
        self.durable: dict[str, Inode | Folder] = {}
        self.now: dict[str, Inode | Folder] = {}

    def sync(self) -> None:
        self.durable = dict(self.now)

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
    """A copy, in which one file under two names stays one file."""
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


def cut(folder: Folder, survives: Callable[[], bool]) -> None:
    """Cut the power of everything in the folder and below."""
    folder.cut(survives)
    for name in sorted(folder.now):
        child = folder.now[name]
        if isinstance(child, Folder):
            cut(child, survives)
        else:
            child.cut(survives)


def used_by(folder: Folder) -> int:
    """Bytes of all files in the folder and below."""
    return sum(len(child.now) if isinstance(child, Inode) else used_by(child) for child in folder.now.values())
