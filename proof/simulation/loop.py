"""The event loop of one simulated process. Callbacks run in asyncio's order, or in uvloop's.

A real socket, signal or thread cannot slip in: there is nothing under this loop that could serve it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from functools import partial
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from proof.simulation.scheduler import Scheduler
from proof.simulation.work import Work

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
FOREVER: Final = float("inf")


class Strand:
    """A line of execution of a process, its loop or one job of a thread, with how far it has come in time.

    Nothing costs time in a simulation but what says so: a callback takes some microseconds, a call to the disk what the
    disk takes. While the loop waits for a disk its strand is ahead of the simulation, and its next turn comes later.
    """

    __slots__ = ("now",)

    def __init__(self, now: float) -> None:
        self.now = now


class Owner(Protocol):
    """The process of a loop."""

    strand: Strand
    """What runs of it now."""
    work: Work

    def enter(self, strand: Strand, run: Callable[[], Any]) -> None:
        """Run something as this process."""

    def failed(self, message: str, error: BaseException | None) -> None:
        """Something that nobody caught."""


class ProcessLoop(asyncio.BaseEventLoop):
    """Runs turns when the scheduler says so. All times are those of the simulation.

    Nothing of its base class is set up: what is not written here finds no selector, and fails.
    """

    def __init__(self, scheduler: Scheduler, name: str, owner: Owner) -> None:
        chance = scheduler.stream(f"{name} loop")
        self._chance = chance.random
        self._scheduler = scheduler
        self._owner = owner
        self._ready: deque[asyncio.Handle] = deque()
        self._arrived: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._number = 0
        self._cancelled = 0
        self._turn_at = FOREVER
        self._turn: Any = None
        self._closed = False
        self.strand = Strand(scheduler.now)
        self.as_uvloop = chance.random() < 0.5
        """Timers first, then what was called soon, then sockets; asyncio: sockets, timers, and what was called soon
        before them."""
        self.callback_s = 10 ** chance.uniform(-6.0, -4.5)
        """Mean time that one callback takes."""
        self.paused = False
        self.turns = 0
        self.callbacks = 0
        self.longest_turn_s = 0.0
        self.most_callbacks = 0

    # ---- asyncio.AbstractEventLoop

    def time(self) -> float:
        """Seconds of the simulation, as far as this process has come."""
        return self.strand.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call in the next turn, from any strand. Raises `RuntimeError` once the loop is closed, as asyncio does."""
        if self._closed:
            raise RuntimeError("Event loop is closed")
        handle = asyncio.Handle(callback, args, self, context)
        strand = self._owner.strand
        if strand is not self.strand and strand.now > self._scheduler.now:
            strand.now += 1e-9  # what one job reports arrives in its order
            self._scheduler.at(strand.now, partial(self._told, handle))
        else:
            self._told(handle)
        return handle

    def _told(self, handle: asyncio.Handle) -> None:
        if not self._closed:
            self._ready.append(handle)
            self.wake(self._scheduler.now)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call after some seconds."""
        return self.call_at(self.strand.now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call at a time."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._number += 1
        heapq.heappush(self._timers, (when, self._number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        self._cancelled += 1
        if self._cancelled > 64 and self._cancelled * 2 > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        """A task of this loop."""
        return asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Run in a pool of the world; there is no other."""
        assert executor is not None, "a pool that the world did not make"
        return asyncio.wrap_future(executor.submit(func, *args), loop=self)

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """True until it is closed."""
        return not self._closed

    def is_closed(self) -> bool:
        """True when the process has ended."""
        return self._closed

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody caught is a fault of the program."""
        self.call_exception_handler(context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody caught is a fault of the program."""
        self._owner.failed(str(context.get("message")), context.get("exception"))

    def close(self) -> None:
        """Run nothing more."""
        self._closed = True
        self._ready.clear()
        self._arrived.clear()
        self._timers.clear()
        self._stop_waiting()

    # ---- what the machine calls

    def arrive(self, callback: Callable[..., object], *args: Any) -> None:
        """A socket is ready: call in the next turn, where sockets have their place."""
        if not self._closed:
            self._arrived.append(asyncio.Handle(callback, args, self, None))
            self.wake(self._scheduler.now)

    def wake(self, when: float) -> None:
        """Begin a turn at this time or before; later if the process is still busy."""
        when = max(when, self.strand.now)
        if when < self._turn_at and not self.paused and not self._closed:
            self._stop_waiting()
            self._turn_at = when
            self._turn = self._scheduler.at(when, self._begin_turn)

    def pause(self) -> None:
        """Run nothing until `resume`."""
        self.paused = True
        self._stop_waiting()

    def resume(self) -> None:
        """Run again: what became due meanwhile is late."""
        self.paused = False
        self.strand.now = max(self.strand.now, self._scheduler.now)
        self.wake(self._scheduler.now)

    def _stop_waiting(self) -> None:
        self._turn_at = FOREVER
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    def _begin_turn(self) -> None:
        self._turn, self._turn_at = None, FOREVER
        self.strand.now = began = max(self.strand.now, self._scheduler.now)
        self._owner.enter(self.strand, self._run_turn)
        if self._closed:
            return
        self.turns += 1
        self.longest_turn_s = max(self.longest_turn_s, self.strand.now - began)
        if self._ready or self._arrived:
            self.wake(self.strand.now)
        else:
            timers = self._timers
            while timers and timers[0][2].cancelled():
                heapq.heappop(timers)
                self._cancelled -= 1
            if timers:
                self.wake(timers[0][0])

    def _run_turn(self) -> None:
        ready = self._ready
        before = self.callbacks
        if self.as_uvloop:
            self._run(self._due())
            self._run([ready.popleft() for _ in range(len(ready))])
            self._run([self._arrived.popleft() for _ in range(len(self._arrived))])
        else:
            ready.extend(self._arrived)
            self._arrived.clear()
            ready.extend(self._due())
            self._run([ready.popleft() for _ in range(len(ready))])
        self.most_callbacks = max(self.most_callbacks, self.callbacks - before)

    def _due(self) -> list[asyncio.Handle]:
        due: list[asyncio.Handle] = []
        timers, now = self._timers, self.strand.now
        while timers and timers[0][0] <= now:
            due.append(heapq.heappop(timers)[2])
        return due

    def _run(self, handles: list[asyncio.Handle]) -> None:
        strand, chance, cost, work = self.strand, self._chance, 2 * self.callback_s, self._owner.work
        for handle in handles:
            if not handle.cancelled() and not self._closed:
                self.callbacks += 1
                strand.now += chance() * cost
                handle._run()
                work.ended(handle)
