"""The folders and files of a simulated disk by path, and the names and bytes that survive a power failure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from bolide.testing.disk import Folder, Inode, clone_of, cut, used_by


class FileSystem:
    """One file system. `bolide.testing.files` describes its fault model."""

    def __init__(self) -> None:
        self.journaled_names = False
        """Whether names survive a power failure in the order of their changes; if False, each name survives
        independently."""
        self.sectors_at_once = 1
        """Sectors of 512 bytes that the disk writes together."""
        self._root = Folder()
        self._journal: list[list[tuple[Folder, str, Inode | Folder | None]]] = []
        """Changes of names that are not durable, oldest first. The parts of one change survive together."""

    def used(self) -> int:
        """Return the bytes in use; each file contributes its length."""
        return used_by(self._root)

    # -- power failures --

    def _copy_to(self, other: FileSystem) -> None:
        """Make `other` a copy of this file system."""
        other.journaled_names = self.journaled_names
        other.sectors_at_once = self.sectors_at_once
        seen: dict[int, Inode | Folder] = {}
        root = clone_of(self._root, seen)
        assert isinstance(root, Folder)
        other._root = root
        for change in self._journal:
            other._journal.append([])
            for folder, name, thing in change:
                copy = clone_of(folder, seen)
                assert isinstance(copy, Folder)
                other._journal[-1].append((copy, name, None if thing is None else clone_of(thing, seen)))

    def _lose(self, survives: Callable[[], bool]) -> None:
        """Simulate a power failure; `survives` decides for each sector, length and name that is not durable."""
        if self.journaled_names:
            kept = next((at for at in range(len(self._journal)) if not survives()), len(self._journal))
            self._keep_names(kept)
            cut(self._root, survives, self.sectors_at_once, names=lambda: False)
        else:
            cut(self._root, survives, self.sectors_at_once)
        self._journal.clear()

    # -- names --

    def _named(self, *changes: tuple[Folder, str, Inode | Folder | None]) -> None:
        """Set names in folders; None removes a name. If names are journaled, the changes of one call survive
        together."""
        for folder, name, thing in changes:
            if thing is None:
                folder.now.pop(name, None)
            else:
                folder.now[name] = thing
        if self.journaled_names:
            self._journal.append(list(changes))

    def _keep_names(self, count: int) -> None:
        """Make the oldest changes of names durable."""
        for change in self._journal[:count]:
            for folder, name, thing in change:
                folder.keep(name, thing)
        del self._journal[:count]

    def _sync_names(self, folder: Folder | None) -> None:
        """Make the names of a folder durable. If names are journaled, a sync of any file makes all names durable."""
        if self.journaled_names:
            self._keep_names(len(self._journal))
        elif folder is not None:
            folder.sync()

    def _place(self, path: str) -> tuple[Folder | None, str]:
        return self._folder(posixpath.dirname(path)), posixpath.basename(path)

    def _folder(self, path: str) -> Folder | None:
        found = self._find(path)
        return found if isinstance(found, Folder) else None

    def _find(self, path: str) -> Inode | Folder | None:
        found: Inode | Folder | None = self._root
        for name in path_parts(path):
            found = found.now.get(name) if isinstance(found, Folder) else None
        return found


def path_parts(path: str) -> list[str]:
    """Return the names in a path."""
    return [part for part in path.split("/") if part]
