"""The loop's turns: when one ends and when the next tick is due. All of one turn is written and sent at once."""

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
"""Time to the next timer after a turn with an internal error: a lasting error does not fill the log, and what the turn
left undone is done then at the latest."""
PAUSED_MS = 20
"""Time between turns while nothing is done by the clock."""
TICKS_AT_ONCE = 16
"""Turns that may follow one another without a pause because something is due; then the loop waits for a millisecond."""
READS_MS = 20
"""Time for what was read in one turn; the rest waits for the next turns, connection by connection."""


@final
class Turns:
    """Schedules `end_of_turn` once per loop turn and keeps one timer for the earliest thing due."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        executor: Executor,
        clock: Clock,
        on_clock_set: Callable[[int], None] | None = None,
    ) -> None:
        """`on_clock_set` is called with the clock's new offset when the wall clock was set."""
        self.executor: Executor = executor
        executor.set_clock(clock.now)
        self.clock: Clock = clock
        self._on_clock_set: Callable[[int], None] | None = on_clock_set
        self._loop: asyncio.AbstractEventLoop = loop
        self._scheduled: bool = False
        self._stopped: bool = False
        self.ticking: bool = True
        """False: nothing is done by the clock."""
        self.still: bool = False
        """True while another thread works on the store: nothing here touches it, and what was read waits."""
        self._reading: bool = False
        self._began: int = 0
        self._turn_times: Durations = executor.stats.turns
        self._late_timers: Durations = executor.stats.late_timers
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: int = NO_DEADLINE
        self._rings_at: int = 0
        self._ticks: bool = False
        """True when the next turn ticks: something was due already when the last one ended."""
        self._at_once: int = 0
        self._end: Callable[[], None] = self._end_of_turn
        self._ring: Callable[[], None] = self._on_timer

    def now(self) -> int:
        """Milliseconds since the epoch; never jumps."""
        return self.clock.now()

    def lag(self, now: int) -> int:
        """How long (ms) what is read now has waited since this turn's first read: all of it was ready then."""
        if not self._reading:
            self._reading = True
            self._began = now
            return 0
        return now - self._began

    def late(self) -> int:
        """The time (ms) once the turn has used its time for what it read; -1 before."""
        now = self.clock.now()
        return now if now - self._began >= READS_MS else -1

    def schedule(self) -> None:
        """End this turn when every socket that was ready has been read."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._end)

    def flushed(self, target: int) -> None:
        """The flush thread is done: the log is on disk up to `target`. What this confirms may be due soon."""
        now = self.now()
        wait = FAILED_WAIT_MS
        try:
            self.executor.flushed(target, now)
            wait = 1
        finally:
            self._arm(wait, self.now())

    def start(self) -> None:
        """Begin to keep time."""
        self._arm(1, self.now())

    def stop(self) -> None:
        """Keep time no more."""
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
        """End the turn that began at `began` (ms)."""
        self._scheduled = False
        self._reading = False
        if self._stopped:
            return  # threads are being joined; what is left is written by the stop itself
        if self.still:
            self.executor.outbox.write_all()  # refusals
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
            # What was done is written and answered, and the clock runs on.
            self._finish(self.now(), min(began, self._began) if self._reading else began)

    def _arm(self, least: int, now: int) -> None:
        """Have the timer ring when something is due, in `least` ms at the soonest."""
        if not self.ticking:
            at = now + PAUSED_MS
        else:
            at = self.executor.next_due()
        if least == FAILED_WAIT_MS:
            at = min(at, now + least)  # for what the turn left undone: pulls that woke, frames to be written
        if at >= self._timer_at or self._stopped:
            return  # the timer set rings early enough; it looks again then
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_at = at
        if at <= now and least <= 1 and self._at_once < TICKS_AT_ONCE:
            # In the next turn, before which sockets are read: long work needs no pauses.
            self._at_once += 1
            self._ticks = True
            self.schedule()
            return
        self._at_once = 0
        wait = min(max(at - now, least), MAX_WAIT_MS)
        self._rings_at = now + wait
        self._timer = self._loop.call_later(wait / 1000.0, self._ring)
