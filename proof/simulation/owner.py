"""A simulated process and its machine as their parts see them: sockets, files, threads and the world of a process."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from bolide.store.disk.files import Files
from proof.simulation.loop import ProcessLoop, Strand
from proof.simulation.scheduler import Scheduler
from proof.simulation.work import Work


class Disk(Files, Protocol):
    """The disk of one process: the store's contract, and what the machine does to it."""

    now_ms: int
    """The time of day of its file system."""

    def process_crash(self) -> None:
        """The process is gone: handles and locks are given back, every byte and name stays."""

    def power_cut(self, seed: int) -> None:
        """The machine lost its power, and the process with it."""

    def used(self) -> int:
        """Bytes in use."""


class Machine(Protocol):
    """The machine of a process."""

    name: str
    ip: str
    up: bool

    def wall_ns(self, now: float) -> int:
        """Return its time of day at this moment of the simulation."""

    def monotonic(self, now: float) -> float:
        """Return the seconds of its clock that is never set."""


class Owner(Protocol):
    """A process, for the sockets, files and threads that it has."""

    scheduler: Scheduler
    name: str
    number: int
    alive: bool
    chance: Random
    clock_s: float
    strand: Strand
    """What runs of it now."""
    work: Work
    ends: dict[Any, None]
    """Its ends of connections."""
    stopped_jobs: dict[Any, None]
    """Jobs that wait in a thread of their own."""

    @property
    def host(self) -> Machine:
        """Return its machine."""

    @property
    def disk(self) -> Disk:
        """Return its disk."""

    @property
    def loop(self) -> ProcessLoop:
        """Return its event loop."""

    def check(self) -> None:
        """Raise `Gone` if the process has been killed."""

    def enter(self, strand: Strand, run: Callable[[], Any]) -> None:
        """Run something as this process."""

    def spend(self, seconds: float) -> None:
        """Wait in what runs now."""

    def disk_call(self, seconds: float, size: int = 0) -> None:
        """Make a call to the disk that takes so long. Raises `Gone`."""

    def when_running(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time, unless the process has ended; later if it is paused."""

    def start_job(self, name: str, work: Callable[[], None], ended: Callable[[], None]) -> None:
        """Run a job in a thread, some time from now."""

    def note(self, kind: str, text: str) -> None:
        """Write a line of the trace."""

    def failed(self, message: str, error: BaseException | None) -> None:
        """Report an error that no code of the process caught."""
