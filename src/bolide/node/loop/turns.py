"""Schedules the turns of the event loop: the end of a turn and the next tick. All work of a turn is written and sent
together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import final

from bolide.broker.core.stats import Durations
from bolide.node.loop.clock import Clock
from bolide.node.loop.executor import Executor
from bolide.node.loop.parked import NO_DEADLINE

MAX_WAIT_MS = 60_000
FAILED_WAIT_MS = 1_000
"""Time until the next timer after a turn with an internal error. It limits log lines of a lasting error, and the time
until unfinished work continues."""
PAUSED_MS = 20
"""Time between turns while ticks are disabled."""
TICKS_AT_ONCE = 16
"""Maximum number of consecutive turns without a pause because work is due. After them, the loop pauses for a
millisecond."""
READS_MS = 20
"""Maximum time for requests read in one turn. The rest waits for later turns, connection by connection."""


@final
class Turns:
    """Schedules `end_of_turn` once per loop turn, and keeps one timer for the earliest due time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        clock: Clock,
        on_clock_set: Callable[[int], None] | None = None,
    ) -> None:
        """`on_clock_set` is called with the clock's new offset after the wall clock was changed."""
        self.executor: Executor = executor
        executor.set_clock(clock.now)
        self.clock: Clock = clock
        self._on_clock_set: Callable[[int], None] | None = on_clock_set
        self._loop: asyncio.AbstractEventLoop = loop
        self._scheduled: bool = False
        self._stopped: bool = False
        self.ticking: bool = True
        """Whether ticks are enabled."""
        self.still: bool = False
        """Whether another thread is working on the store. Then no turn uses the store, and requests wait."""
        self._reading: bool = False
        self._began: int = 0
        self._turn_times: Durations = executor.stats.turns
        self._late_timers: Durations = executor.stats.late_timers
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int = NO_DEADLINE
        self._rings_at: int = 0
        self._ticks: bool = False
        """Whether the next turn runs ticks, because work was already due when the last one ended."""
        self._at_once: int = 0
        self._end: Callable[[], None] = self._end_of_turn
        self._ring: Callable[[], None] = self._on_timer

    def now(self) -> int:
        """Return the time in ms since the epoch. Never jumps."""
        return self.clock.now()

    def lag(self, now: int) -> int:
        """Return the time since the first read of this turn in ms. The first call in a turn starts the measurement."""
        if not self._reading:
            self._reading = True
            self._began = now
            return 0
        return now - self._began

    def late(self) -> int:
        """Return the time (ms) if the turn has used its time for reads, else -1."""
        now = self.clock.now()
        return now if now - self._began >= READS_MS else -1

    def schedule(self) -> None:
        """End this turn after every ready socket has been read."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end)

    def flushed(self, target: int) -> None:
        """Called when the flush thread has synced the log up to `target`. Work that this confirms may soon be due."""
        now = self.now()
        wait = FAILED_WAIT_MS
        try:
            self.executor.flushed(target, now)
            wait = 1
        finally:
            self._arm(wait, self.now())

    def start(self) -> None:
        """Start the timer."""
        self._arm(1, self.now())

    def stop(self) -> None:
        """Stop the timer."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end_of_turn(self) -> None:
        now = self.now()
        began = self._began if self._reading else now
        if not self._ticks or self._stopped:
            self._finish(now, began)
            return
        self._ticks = False
        self._timer_at = NO_DEADLINE
        try:
            self._tick(now)
        finally:
            self._finish(self.now(), began)

    def _finish(self, now: int, began: int) -> None:
        """End the turn that started at `began` (ms)."""
        self._scheduled = False
        self._reading = False
        if self._stopped:
            return  # threads are being joined; the shutdown writes the rest
        if self.still:
            self.executor.outbox.write_all()  # error responses
            self._arm(FAILED_WAIT_MS, now)
            return
        least = FAILED_WAIT_MS
        try:
            self.executor.end_of_turn(now)
            least = 1
        finally:
            ended = self.now()
            self._turn_times.add(ended - began)
            self._arm(least, ended)
        if self.clock.moved(now) and self._on_clock_set is not None:
            self._on_clock_set(self.clock.offset)
            self._arm(1, ended)

    def _tick(self, now: int) -> None:
        if self.ticking and not self.still:
            self.executor.tick(now)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_at = NO_DEADLINE
        if self._stopped:
            return
        began = self.now()
        self._late_timers.add(began - self._rings_at)
        try:
            self._tick(began)
        finally:
            # Write and send the results, and set the next timer.
            self._finish(self.now(), min(began, self._began) if self._reading else began)

    def _arm(self, least: int, now: int) -> None:
        """Set the timer to the next due time, but at least `least` ms from now."""
        if not self.ticking:
            at = now + PAUSED_MS
        else:
            at = self.executor.next_due()
        if least == FAILED_WAIT_MS:
            at = min(at, now + least)  # for unfinished work of the turn: woken pulls, frames to write
        if at >= self._timer_at or self._stopped:
            return  # the current timer fires early enough and is then set again
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at <= now and least <= 1 and self._at_once < TICKS_AT_ONCE:
            # Run in the next turn, after its sockets are read. Long work needs no pauses.
            self._at_once += 1
            self._ticks = True
            self.schedule()
            return
        self._at_once = 0
        wait = min(max(at - now, least), MAX_WAIT_MS)
        self._rings_at = now + wait
        self._timer = self._loop.call_later(wait / 1000.0, self._ring)
