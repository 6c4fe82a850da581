"""What a node or a client asks of the world around it, as Protocols.

Everything that differs from one run to the next enters through a `World`: the time of day, random numbers, threads,
sockets, files, and what the machine is. `bolide.world.real.RealWorld` is the machine itself. A simulation gives an
object of its own, and an event loop whose time it decides: timers and tasks are asyncio's, so they follow the loop.

With the same seed a simulation repeats a run exactly, provided that its `random` is seeded, its pools and workers run
their jobs on the loop, its ports connect in memory, and the process hashes text alike (PYTHONHASHSEED).
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
        """Run this after what was given before. A job must not raise."""

    def stop(self, patience: float | None = None) -> bool:
        """Finish what was given and end; False when that takes more than `patience` seconds. Waits, so call it off the
        loop (`World.in_thread`). A second call does nothing.
        """


class BoundPort(Protocol):
    """A TCP port that is taken, and accepts connections from `serve` on."""

    @property
    def port(self) -> int:
        """Its number."""

    async def serve(self, accepted: Callable[[], Any]) -> None:
        """Accept connections: `accepted` makes the asyncio protocol of each. Raises `OSError`."""

    def close(self) -> None:
        """Accept no more; connections that are open stay. A second call does nothing."""


class SmallFiles(Protocol):
    """Files that are read and written whole. Methods raise `OSError` or `bolide.errors.LocalError`."""

    def read_file(self, path: str) -> bytes | None:
        """The content, or None when there is no such file."""

    def write_file(self, path: str, data: bytes) -> None:
        """Replace the file as a whole, on disk when this returns; what it held before stays as `path`.bak."""

    def make_dir(self, path: str) -> None:
        """Make a folder and those above it."""


class World(Protocol):
    """The surroundings of one node or client. Methods may be called on the loop, where nothing else is said."""

    @property
    def random(self) -> random.Random:
        """Random numbers, for everything that has to differ or to be spread."""

    @property
    def files(self) -> SmallFiles:
        """Files; their calls wait for the disk, so make them `in_thread`."""

    def wall_ns(self) -> int:
        """The time of day: nanoseconds since 1970. It may be set at any moment, so it only labels."""

    def wall_ms(self) -> int:
        """The time of day: milliseconds since 1970."""

    def monotonic(self) -> float:
        """Seconds of a clock that nobody sets, for how long something takes."""

    def process_id(self) -> int:
        """The number of this process."""

    def own_ip(self) -> str:
        """The IPv4 address that this machine uses towards others; 127.0.0.1 when it has none."""

    def resolve(self, host: str) -> str:
        """The IP address of a host name. Raises `OSError`. May wait for a name server of the Internet."""

    def bind(self, host: str, port: int) -> BoundPort:
        """Take a TCP port; 0 = any free one, "" as host = all interfaces. Raises `OSError`."""

    async def connect(self, make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
        """Connect and return the asyncio protocol that `make` made for it. Raises `OSError`."""

    def pool(self, threads: int, name: str) -> Executor:
        """Threads for work that waits; the caller shuts them down."""

    def worker(self, name: str) -> Worker:
        """A thread of its own for jobs in order. It does not keep the process alive."""

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Call something that waits, off the loop."""
