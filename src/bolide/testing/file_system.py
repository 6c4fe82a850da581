"""The folders and files of a simulated disk by their paths, and which names and bytes a power cut leaves."""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from bolide.testing.disk import Folder, Inode, clone_of, cut, used_by


class FileSystem:
    """One file system. `bolide.testing.files` tells what it keeps."""

    def __init__(self) -> None:
        self.journaled_names = False
        """Names survive a power cut in the order in which they were made; False = each by itself."""
        self.sectors_at_once = 1
        """Sectors of 512 bytes that the disk writes as one."""
        self._root = Folder()
        self._journal: list[list[tuple[Folder, str, Inode | Folder | None]]] = []
        """Changes of names that are not durable, oldest first; the parts of one survive together."""

    def used(self) -> int:
        """Bytes in use; a file counts with its length."""
        return used_by(self._root)

    # -- the power cut --

    def _copy_to(self, other: FileSystem) -> None:
        """Make `other` a copy of this one."""
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
        """The power is cut; `survives` is asked about each sector, length and name that is not durable."""
        if self.journaled_names:
            kept = next((at for at in range(len(self._journal)) if not survives()), len(self._journal))
            self._keep_names(kept)
            cut(self._root, survives, self.sectors_at_once, names=lambda: False)
        else:
            cut(self._root, survives, self.sectors_at_once)
        self._journal.clear()

    # -- names --

    def _named(self, *changes: tuple[Folder, str, Inode | Folder | None]) -> None:
        """Give names in folders; None takes one away. What is given at once survives at once where it is journaled."""
        for folder, name, thing in changes:
            if thing is None:
                folder.now.pop(name, None)
            else:
                folder.now[name] = thing
        if self.journaled_names:
            self._journal.append(list(changes))

    def _keep_names(self, count: int) -> None:
        """The oldest changes of names become durable."""
        for change in self._journal[:count]:
            for folder, name, thing in change:
                folder.keep(name, thing)
        del self._journal[:count]

    def _sync_names(self, folder: Folder | None) -> None:
        """The names of a folder become durable; where names are journaled, all names do, at a sync of anything."""
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
    """The names in a path."""
    return [part for part in path.split("/") if part]
