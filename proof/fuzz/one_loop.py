"""A world on virtual time, in one thread and on one loop: the clock jumps to the next timer; sockets, threads and disks
are in memory. The same seed gives the same run.

`proof.simulation` has loops, clocks and faults for each process, and decides when each thing happens. Here nothing
fails, so that thousands of inputs are tried a minute.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, Final

from bolide.node.loop.clock import Clock
from bolide.store.disk.files import Files
from bolide.testing.files import SimulatedFiles

EPOCH_MS: Final = 1_800_000_000_000
"""The time of day at which every simulation begins."""


class NothingLeft(Exception):
    """The simulation waits, and nothing is under way that could end the wait."""


class _Selector:
    """What the loop asks for sockets: there are none, so it lets the time pass instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise NothingLeft
        self._loop.now += timeout
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """asyncio's loop on a clock of its own: what is due runs in order, and no time passes while it does."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._selector = _Selector(self)

    def time(self) -> float:
        return self.now

    def _process_events(self, events: list[Any]) -> None:
        return

    def _write_to_self(self) -> None:
        return


class Universe:
    """What the worlds of one simulation share: the loop, the seeded chance, and the network."""

    def __init__(self, seed: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.random = random.Random(seed)
        self.ports: dict[tuple[str, int], SimulatedPort] = {}
        self._next_port = 40_000

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def delay(self) -> float:
        """How long something takes, in seconds."""
        return self.random.uniform(0.0001, 0.005)

    async def a_while(self) -> None:
        """Wait as long as something takes."""
        future = self.loop.create_future()
        timer = self.loop.call_later(self.delay(), future.set_result, None)
        try:
            await future
        finally:
            timer.cancel()

    def world(self, ip: str, process_id: int) -> SimulatedWorld:
        return SimulatedWorld(self, ip, process_id)


class SimulatedWorld:
    """One process of a simulation: a `bolide.node.machine.node_world.NodeWorld`."""

    def __init__(self, universe: Universe, ip: str, process_id: int) -> None:
        self._universe = universe
        self._ip = ip
        self._process_id = process_id
        self.disk = SimulatedFiles()

    @property
    def random(self) -> random.Random:
        return self._universe.random

    @property
    def files(self) -> Files:
        return self.disk

    def wall_ns(self) -> int:
        return EPOCH_MS * 1_000_000 + int(self._universe.loop.time() * 1e9)

    def wall_ms(self) -> int:
        return self.wall_ns() // 1_000_000

    def monotonic(self) -> float:
        return self._universe.loop.time()

    def clock(self) -> Clock:
        return Clock(self.wall_ms, lambda: int(self._universe.loop.time() * 1000))

    def process_id(self) -> int:
        return self._process_id

    def own_ip(self) -> str:
        return self._ip

    def resolve(self, host: str) -> str:
        return host

    def memory_bytes(self) -> int:
        return 1 << 33

    def max_open_files(self) -> int:
        return 4096

    def allocated_blocks(self) -> int:
        return 0

    def disk_space(self, path: str) -> tuple[int, int]:
        return 1 << 40, (1 << 40) - self.disk.used()

    def bind(self, host: str, port: int) -> SimulatedPort:
        return SimulatedPort(self._universe, host or self._ip, port or self._universe.free_port())

    async def connect(self, make: Callable[[], Any], host: str, port: int, tls: ssl.SSLContext | None) -> Any:
        assert tls is None
        universe = self._universe
        await universe.a_while()
        found = universe.ports.get((host, port))
        if found is None or found.accepted is None:
            raise ConnectionRefusedError(111, "Connection refused")
        here, there = make(), found.accepted()
        place = (self._ip, universe.free_port())
        near = SimulatedTransport(universe, here, place, (host, port))
        far = SimulatedTransport(universe, there, (host, port), place)
        near.peer, far.peer = far, near
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return here

    def pool(self, threads: int, name: str) -> Executor:
        return SimulatedPool(self._universe)

    def worker(self, name: str) -> SimulatedWorker:
        return SimulatedWorker(self._universe)

    async def in_thread(self, work: Callable[..., Any], *arguments: Any) -> Any:
        await self._universe.a_while()
        return work(*arguments)


class SimulatedPort:
    """A port of the simulated network."""

    def __init__(self, universe: Universe, host: str, port: int) -> None:
        self._ports = universe.ports
        self._place = (host, port)
        self.port = port
        self.accepted: Callable[[], Any] | None = None
        if self._place in self._ports:
            raise OSError(98, "Address already in use")
        self._ports[self._place] = self

    async def serve(self, accepted: Callable[[], Any]) -> None:
        self.accepted = accepted

    def close(self) -> None:
        if self._ports.get(self._place) is self:
            del self._ports[self._place]


class SimulatedTransport:
    """One end of a connection. What is written arrives at the other end later, whole and in order."""

    def __init__(self, universe: Universe, protocol: Any, own: tuple[str, int], other: tuple[str, int]) -> None:
        self.protocol = protocol
        self.peer: SimulatedTransport | None = None
        self._universe = universe
        self._names = {"sockname": own, "peername": other}
        self._arrives = 0.0
        self._closing = False
        self._paused = False
        self._kept: deque[bytes] = deque()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._names.get(name, default)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._closing

    def write(self, data: Any) -> None:
        if not self._closing and self.peer is not None:
            self._later(self.peer.arrived, bytes(data))

    def writelines(self, buffers: list[Any]) -> None:
        self.write(b"".join(buffers))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            if self.peer is not None:
                self._later(self.peer.ended)
            self._universe.loop.call_soon(self.protocol.connection_lost, None)

    abort = close

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        while self._kept and not self._paused and not self._closing:
            self.protocol.data_received(self._kept.popleft())

    def arrived(self, data: bytes) -> None:
        if self._closing:
            return
        if self._paused:
            self._kept.append(data)
        else:
            self.protocol.data_received(data)

    def ended(self) -> None:
        if not self._closing:
            self._closing = True
            self.protocol.connection_lost(None)

    def _later(self, what: Callable[..., None], *arguments: Any) -> None:
        loop = self._universe.loop
        self._arrives = max(self._arrives, loop.time() + self._universe.delay())
        loop.call_at(self._arrives, what, *arguments)


class SimulatedWorker:
    """Jobs one after the other, each after a while."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._jobs: deque[Callable[[], object]] = deque()

    def give(self, job: Callable[[], object]) -> None:
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._universe.loop.call_later(self._universe.delay(), self._next)

    def stop(self, patience: float | None = None) -> bool:
        while self._jobs:
            self._jobs.popleft()()
        return True

    def _next(self) -> None:
        if self._jobs:
            self._jobs[0]()
            self._jobs.popleft()
        if self._jobs:
            self._universe.loop.call_later(self._universe.delay(), self._next)


class SimulatedPool(Executor):
    """Jobs in an order of chance."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._waiting: dict[Future[Any], Callable[[], Any]] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting[future] = lambda: fn(*args, **kwargs)
        self._universe.loop.call_later(self._universe.delay(), self._run, future)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in list(self._waiting):
            self._run(future)

    def _run(self, future: Future[Any]) -> None:
        work = self._waiting.pop(future, None)
        if work is None or not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)
