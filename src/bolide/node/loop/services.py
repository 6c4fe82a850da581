"""The services of one daemon, merged: one table of handlers, one heap of due times, the hooks each of them has.

A new service is one more element of the list given to `Services`. What a service may have is written in
`broker/core/outcome.py`; it is looked up here once, by name, so the turn pays nothing for what a service does not have.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Handler

TICK_BUDGET: Final = 1000
"""Records a tick may handle before the loop gets its turn back."""
TICKS_MS: Final = 15
"""How long all ticks of one turn may take; the rest run in the next."""
FAILED_PAUSE_MS: Final = 1000
REVIEW_MS: Final = 50
"""After turns in which something happened every service is asked again when it is due, at most this often: what one
service does may give another something to do (a pull commits an offset, which is to be written)."""


@final
class Timed:
    """One service that wants ticks, and when it wants the next."""

    def __init__(self, service: Any) -> None:
        self.service: Any = service
        self.due: Callable[[int], int | None] = service.due
        self.tick: Callable[[int, int], None] = service.tick
        self.at: int | None = None
        self.not_before: int = 0
        """A tick that failed is not tried again before this."""


@final
class Services:
    """All services of a node, looked up once at start."""

    def __init__(self, services: Sequence[Any]) -> None:
        self.services: list[Any] = list(services)
        self.handlers: dict[int, Handler] = {}
        owners: dict[int, str] = {}
        for service in services:
            found = service.handlers() if hasattr(service, "handlers") else {}
            for code, handler in found.items():
                if code in owners:
                    name = type(service).__name__
                    raise ValueError(f"request code {code} is served by {owners[code]} already; {name} cannot take it")
                owners[code] = type(service).__name__
                self.handlers[code] = handler
        self.closed_hooks: list[Callable[[Channel, int], None]] = hooks(services, "channel_closed")
        self.arrived_hooks: list[Callable[[list[Any], int], None]] = hooks(services, "arrived")
        self.persisted: dict[str, Any] = {}
        for service in services:
            name = getattr(service, "persist_name", "")
            if not name:
                continue
            if name in self.persisted:
                raise ValueError(f"two services write config/{name}.json: give one of them another persist_name")
            self.persisted[name] = service
        self.configured: list[Callable[[Any], None]] = hooks(services, "configure")
        """Those that read a setting which may change while the broker runs."""
        self._timed: list[Timed] = [Timed(s) for s in services if hasattr(s, "due") and hasattr(s, "tick")]
        self._by_service: dict[int, Timed] = {id(timed.service): timed for timed in self._timed}
        self._heap: list[tuple[int, int]] = []
        self._reviewed: int = 0
        self.clock: Callable[[], int] | None = None
        """What the time is by now, within a turn; None = ticks may take any time."""
        self.touched: bool = False
        """Set when something happened: what is due may have moved."""

    def start(self, now: int) -> None:
        """Ask every service when it wants its tick."""
        self.touched = False
        self._reviewed = now
        for index in range(len(self._timed)):
            self._ask(index, now)

    def wake(self, service: object, now: int) -> None:
        """Ask one service again: what it waits for has moved."""
        timed = self._by_service.get(id(service))
        if timed is not None:
            self._ask(self._timed.index(timed), now)

    def next_due(self) -> int | None:
        """When `tick` is wanted next (ms since epoch), or None."""
        at = self._earliest()
        if self.touched:
            review = self._reviewed + REVIEW_MS
            return review if at is None or review < at else at
        return at

    def _earliest(self) -> int | None:
        while self._heap:
            at, index = self._heap[0]
            if self._timed[index].at == at:
                return at
            heapq.heappop(self._heap)  # superseded by a later answer of the same service
        return None

    def tick(self, now: int, failed: Callable[[Any, BaseException], None]) -> int:
        """Run every tick that is due; returns how many ran. A tick that raises is reported and asked again later."""
        if self.touched and now >= self._reviewed + REVIEW_MS:
            self.start(now)
        ran = 0
        again: list[int] = []
        clock = self.clock
        end = clock() + TICKS_MS if clock is not None else 0
        while (at := self._earliest()) is not None and at <= now:
            _, index = heapq.heappop(self._heap)
            timed = self._timed[index]
            timed.at = None
            try:
                timed.tick(now, TICK_BUDGET)
                again.append(index)
            except Exception as error:  # one service's fault must not stop the others' clocks
                failed(timed.service, error)
                timed.not_before = now + FAILED_PAUSE_MS
                self._push(index, timed.not_before)
            ran += 1
            if clock is not None and clock() >= end:
                break
        for index in again:
            self._ask(index, now)
        if ran:
            self.touched = True  # what one did may make another due: the store flushes what a delivery appended
        return ran

    def _ask(self, index: int, now: int) -> None:
        at = self._timed[index].due(now)
        if at is not None and at < self._timed[index].not_before:
            at = self._timed[index].not_before
        if at is not None and at != self._timed[index].at:
            self._push(index, at)
        elif at is None:
            self._timed[index].at = None

    def _push(self, index: int, at: int) -> None:
        self._timed[index].at = at
        heapq.heappush(self._heap, (at, index))


def hooks(services: Sequence[Any], name: str) -> list[Any]:
    """The bound methods of this name, of the services that have one, in order."""
    return [getattr(service, name) for service in services if hasattr(service, name)]
