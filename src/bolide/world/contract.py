"""Protocols for the environment of a node or client.

Everything that differs between two runs comes from a `World`: the time, random numbers, threads, sockets, files, and
properties of the host. `bolide.world.real.RealWorld` uses the real host. A simulation provides its own object, and an
event loop whose time it controls: timers and tasks are asyncio's, so they follow the loop.

A simulation repeats a run exactly if its `random` has the same seed, its pools and workers run their jobs on the loop,
its ports connect in memory, and the process hashes strings identically (PYTHONHASHSEED).
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")
P = TypeVar("P")


class Worker(Protocol):
    """A thread that runs jobs one at a time."""

    def give(self, job: Callable[[], object]) -> None:
        """Queue a job. Jobs run in order and must not raise."""

    def stop(self, patience: float | None = None) -> bool:
        """Finish all jobs and stop. Return False if that takes more than `patience` seconds.

        Blocks, so call it in a thread (`World.in_thread`). A second call does nothing.
        """


class BoundPort(Protocol):
    """A bound TCP port, which accepts connections after `serve`."""

    @property
    def port(self) -> int:
        """Port number."""

    async def serve(self, accepted: Callable[[], Any]) -> None:
        """Accept connections. `accepted` creates the asyncio protocol of each. Raises `OSError`."""

    def close(self) -> None:
        """Stop accepting connections. Open connections are not closed. A second call does nothing."""


class SmallFiles(Protocol):
    """Files that are read and written as a whole. Methods raise `OSError` or `bolide.errors.LocalError`."""

    def read_file(self, path: str) -> bytes | None:
        """Return the content, or None if the file does not exist."""

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the file and sync it. `path`.bak then has the old content."""

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents."""


@runtime_checkable
class World(Protocol):
    """The environment of one node or client. Call methods on the loop unless stated otherwise."""

    @property
    def random(self) -> random.Random:
        """Random number generator, for values that must be unique or evenly spread."""

    @property
    def files(self) -> SmallFiles:
        """Small files. Their methods block on the disk, so call them `in_thread`."""

    def wall_ns(self) -> int:
        """Return the wall clock time in ns since the epoch. Not monotonic: use it for timestamps only."""

    def wall_ms(self) -> int:
        """Return the wall clock time in ms since the epoch. Not monotonic."""

    def monotonic(self) -> float:
        """Return the time of a monotonic clock in seconds, to measure durations."""

    def process_id(self) -> int:
        """Return the id of this process."""

    def own_ip(self) -> str:
        """Return the IPv4 address at which other hosts reach this host, or 127.0.0.1 if it has no network."""

    def resolve(self, host: str) -> str:
        """Return an IP address of a host name. May block on DNS. Raises `OSError` if the name cannot be resolved."""

    def bind(self, host: str, port: int) -> BoundPort:
        """Bind a TCP port. Port 0 picks a free port, and host "" binds all interfaces. Raises `OSError`."""

    async def connect(self, make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
        """Connect, with TLS if `tls` is given. Return the asyncio protocol that `make` created. Raises `OSError`."""

    def pool(self, threads: int, name: str) -> Executor:
        """Create a thread pool for blocking work. The caller must shut it down."""

    def worker(self, name: str) -> Worker:
        """Create a thread that runs jobs in order. It does not keep the process alive."""

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call a blocking function in a thread and return its result."""
