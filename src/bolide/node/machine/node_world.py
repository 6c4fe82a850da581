"""The world around a node: a client's, and what only a server needs of its machine."""

from __future__ import annotations

import os
import sys
from typing import Protocol

from bolide.node.loop.clock import Clock
from bolide.node.machine.open_files import raise_limit
from bolide.store.disk.files import Files, RealFiles
from bolide.world.contract import World
from bolide.world.real import RealWorld


class NodeWorld(World, Protocol):
    """A `World` with a disk for a store."""

    @property
    def files(self) -> Files:
        """The disk, with a store's files and all others of the node."""

    def clock(self) -> Clock:
        """A clock that begins now."""

    def memory_bytes(self) -> int:
        """Memory of the machine; 0 where it is not known. What counts as "in memory" depends on it."""

    def max_open_files(self) -> int:
        """How many files and connections this process may have open."""

    def disk_space(self, path: str) -> tuple[int, int]:
        """Total and free bytes of the file system that holds a path."""

    def allocated_blocks(self) -> int:
        """Blocks of memory that the objects of this process occupy: a count that rises where something leaks."""


class RealNodeWorld(RealWorld):
    """This machine. `files` and `clock` may be others, in tests of one fault."""

    def __init__(self, files: Files | None = None, clock: Clock | None = None) -> None:
        super().__init__()
        self._files: Files = files if files is not None else RealFiles()
        self._clock = clock

    @property
    def files(self) -> Files:
        """The machine's file system."""
        return self._files

    def clock(self) -> Clock:
        """The clock of the machine, which compiled code reads by a native call."""
        return self._clock if self._clock is not None else Clock()

    def memory_bytes(self) -> int:
        """Physical memory."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (ValueError, OSError, AttributeError):
            return 0

    def max_open_files(self) -> int:
        """The limit of this process, raised as far as it goes."""
        return raise_limit()

    def disk_space(self, path: str) -> tuple[int, int]:
        """What `df` shows."""
        # shutil would load every compressor of the standard library.
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def allocated_blocks(self) -> int:
        """As the interpreter counts them, in microseconds; it does not collect first."""
        return sys.getallocatedblocks()
