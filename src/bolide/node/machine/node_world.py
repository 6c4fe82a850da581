"""Environment of a node: the environment of a client, and resources that only a server needs."""

from __future__ import annotations

import os
import sys
from typing import Protocol

from bolide.node.loop.clock import Clock
from bolide.store.disk.files import Files, RealFiles
from bolide.world.contract import World
from bolide.world.open_files import raise_limit
from bolide.world.real import RealWorld


class NodeWorld(World, Protocol):
    """Environment of a server: a `World` with a disk, a clock and the limits of the host."""

    @property
    def files(self) -> Files:
        """The file system of the store and of all other files of the node."""

    def clock(self) -> Clock:
        """Return a clock that starts now."""

    def memory_bytes(self) -> int:
        """Return the memory of the host in bytes, or 0 if unknown. It determines which data is assumed to be in
        memory."""

    def max_open_files(self) -> int:
        """Return the maximum number of open files and connections of this process."""

    def disk_space(self, path: str) -> tuple[int, int]:
        """Return total and free bytes of the file system that contains a path."""

    def allocated_blocks(self) -> int:
        """Return the number of memory blocks used by objects of this process. A growing number indicates a leak."""


class RealNodeWorld(RealWorld):
    """The real environment. Tests replace `files` or `clock`."""

    def __init__(self, files: Files | None = None, clock: Clock | None = None) -> None:
        super().__init__()
        self._files: Files = files if files is not None else RealFiles()
        self._clock = clock

    @property
    def files(self) -> Files:
        """The file system of the host."""
        return self._files

    def clock(self) -> Clock:
        """Return the clock of the host, which compiled code reads by a native call."""
        return self._clock if self._clock is not None else Clock()

    def memory_bytes(self) -> int:
        """Return the physical memory in bytes, or 0 if it is unknown."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError, AttributeError):
            return 0

    def max_open_files(self) -> int:
        """Raise the limit of this process as far as possible, and return it."""
        return raise_limit()

    def disk_space(self, path: str) -> tuple[int, int]:
        """Return the sizes as `df` shows them."""
        # shutil would load every compressor of the standard library.
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def allocated_blocks(self) -> int:
        """Return the interpreter's count, within microseconds. Does not collect garbage first."""
        return sys.getallocatedblocks()
