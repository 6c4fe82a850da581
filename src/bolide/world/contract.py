"""Protocols of what a node or client needs from its environment.

Everything that differs between two runs comes from a `World`: the time, random numbers, threads, sockets, files, and
properties of the machine. `bolide.world.real.RealWorld` uses the real machine. A simulation provides its own object,
and an event loop whose time it controls: timers and tasks are asyncio's, so they follow the loop.

With the same seed a simulation repeats a run exactly if its `random` is seeded, its pools and workers run their jobs on
the loop, its ports connect in memory, and the process hashes strings identically (PYTHONHASHSEED).
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
P = TypeVar("P")


class Worker(Protocol):
    """One thread that runs jobs one after the other, in the order in which they were given."""

    def give(self, job: Callable[[], object]) -> None:
        """Run this job after the earlier ones. A job must not raise."""

    def stop(self, patience: float | None = None) -> bool:
        """Finish all jobs and stop; return False if that takes more than `patience` seconds.

        Blocks, so call it in a thread (`World.in_thread`). A second call does nothing.
        """


class BoundPort(Protocol):
    """A bound TCP port, which accepts connections after `serve`."""

    @property
    def port(self) -> int:
        """Its number."""

    async def serve(self, accepted: Callable[[], Any]) -> None:
        """Accept connections: `accepted` makes the asyncio protocol of each. Raises `OSError`."""

    def close(self) -> None:
        """Stop accepting connections. Open connections are not closed. A second call does nothing."""


class SmallFiles(Protocol):
    """Files that are read and written whole. Methods raise `OSError` or `bolide.errors.LocalError`."""

    def read_file(self, path: str) -> bytes | None:
        """The content, or None when there is no such file."""

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the whole file, synced on return. `path`.bak has the old content."""

    def make_dir(self, path: str) -> None:
        """Create a folder and its parents."""


class World(Protocol):
    """The environment of one node or client. Call methods on the loop unless stated otherwise."""

    @property
    def random(self) -> random.Random:
        """Random numbers, for everything that has to differ or to be spread."""

    @property
    def files(self) -> SmallFiles:
        """Files; their calls wait for the disk, so make them `in_thread`."""

    def wall_ns(self) -> int:
        """Return the time in nanoseconds since 1970. Users may set this clock, so use it for timestamps only."""

    def wall_ms(self) -> int:
        """The time of day: milliseconds since 1970."""

    def monotonic(self) -> float:
        """Return the seconds of a monotonic clock, to measure durations."""

    def process_id(self) -> int:
        """The number of this process."""

    def own_ip(self) -> str:
        """Return the IPv4 address by which other machines reach this machine, or 127.0.0.1 without a network."""

    def resolve(self, host: str) -> str:
        """The IP address of a host name. Raises `OSError`. May wait for a name server of the Internet."""

    def bind(self, host: str, port: int) -> BoundPort:
        """Take a TCP port; 0 = any free one, "" as host = all interfaces. Raises `OSError`."""

    async def connect(self, make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
        """Connect and return the asyncio protocol that `make` made for it. Raises `OSError`."""

    def pool(self, threads: int, name: str) -> Executor:
        """Threads for work that waits; the caller shuts them down."""

    def worker(self, name: str) -> Worker:
        """Create a thread that runs jobs in order. It does not keep the process alive."""

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits, off the loop."""
