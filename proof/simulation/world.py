"""What a simulated process sees: a `bolide.node.machine.node_world.NodeWorld` without anything of the real machine."""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from bolide.node.loop.clock import Clock
from bolide.store.disk.files import Files
from bolide.world.contract import BoundPort, Worker
from proof.simulation.files import ProcessFiles
from proof.simulation.network import Network
from proof.simulation.owner import Owner
from proof.simulation.threads import ProcessPool, ProcessWorker

T = TypeVar("T")
P = TypeVar("P")
DISK_SIZE = 1 << 34
THREADS = 6
"""Threads of `in_thread`, as asyncio has on a machine of two processors."""


class ProcessWorld:
    """The world of one process."""

    def __init__(self, process: Owner, network: Network) -> None:
        self._process = process
        self._network = network
        self._random = process.scheduler.stream(f"{process.name} {process.number} world")
        self._threads = ProcessPool(process, THREADS, "thread")
        self.disk_files = ProcessFiles(process)
        self._files: Files = self.disk_files
        self.open_files = 4096
        self.memory = 1 << 33

    @property
    def random(self) -> random.Random:
        """Chance of the process."""
        self._process.check()
        return self._random

    @property
    def files(self) -> Files:
        """Its disk."""
        return self._files

    def _read_clock(self) -> float:
        process = self._process
        process.check()
        process.strand.now += process.clock_s
        return max(process.strand.now, process.scheduler.now)

    def wall_ns(self) -> int:
        """The time of day of its machine."""
        return self._process.host.wall_ns(self._read_clock())

    def wall_ms(self) -> int:
        """The time of day of its machine."""
        return self.wall_ns() // 1_000_000

    def monotonic(self) -> float:
        """The same as the loop's time, which clients compare it with."""
        return self._read_clock()

    def clock(self) -> Clock:
        """A clock that begins now."""
        host = self._process.host
        return Clock(self.wall_ms, lambda: int(host.monotonic(self._read_clock()) * 1000))

    def process_id(self) -> int:
        """A number that no other process has."""
        return self._process.number

    def own_ip(self) -> str:
        """The address of its machine."""
        return self._process.host.ip

    def resolve(self, host: str) -> str:
        """The address of a name."""
        return self._network.address(self._process, host)

    def memory_bytes(self) -> int:
        """Memory of its machine."""
        return self.memory

    def max_open_files(self) -> int:
        """Its limit of descriptors."""
        return self.open_files

    def disk_space(self, path: str) -> tuple[int, int]:
        """The size of its disk and what is free of it."""
        return DISK_SIZE, DISK_SIZE - self._process.disk.used()

    def allocated_blocks(self) -> int:
        """Not counted: it differs from one interpreter to the next."""
        return 0

    def bind(self, host: str, port: int) -> BoundPort:
        """Take a port."""
        self._process.check()
        return self._network.bind(self._process, host, port)

    async def connect(self, make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
        """Connect over the simulated network, which knows no TLS."""
        assert tls is None, "the simulated network has no TLS"
        protocol: Any = await self._network.connect(self._process, make, host, port)
        made: P = protocol
        return made

    def pool(self, threads: int, name: str) -> Executor:
        """Threads."""
        return ProcessPool(self._process, threads, name)

    def worker(self, name: str) -> Worker:
        """One thread."""
        return ProcessWorker(self._process, name)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits."""
        result: T = await self._process.loop.run_in_executor(self._threads, work, *arguments)
        return result
