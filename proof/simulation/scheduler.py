"""The order of everything: events at moments of virtual time, and the streams of chance that all come from one seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Final, Protocol

from proof.simulation.trace import Trace

EPOCH_MS: Final = 1_800_000_000_000
"""The time of day at which every simulation begins."""


class NothingLeft(Exception):
    """The simulation waits, and nothing is under way that could end the wait."""


class Running(Protocol):
    """A process."""

    name: str
    number: int
    alive: bool


class Event:
    """Something that happens at a moment, unless it is cancelled before."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """It does not happen."""
        self.action = None


class Scheduler:
    """Runs events in the order of their times; chance decides among those of one moment."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.seed = seed
        self.trace = trace
        self.now = 0.0
        self.steps = 0
        self.running: Running | None = None
        """The process whose code runs now, None in between."""
        self._chance = self.stream("scheduler").random
        self._events: list[tuple[float, float, int, Event]] = []
        self._number = 0

    def stream(self, name: str) -> random.Random:
        """Chance of its own for one part, so that what one part draws changes nothing for the others."""
        return random.Random(f"{self.seed}/{name}")

    def at(self, when: float, action: Callable[[], None]) -> Event:
        """Let something happen at a moment, now at the earliest."""
        event = Event(action)
        self._number += 1
        heapq.heappush(self._events, (max(when, self.now), self._chance(), self._number, event))
        return event

    def after(self, seconds: float, action: Callable[[], None]) -> Event:
        """Let something happen after some time."""
        return self.at(self.now + seconds, action)

    def run(self, finished: Callable[[], bool]) -> None:
        """Let things happen until `finished` holds. Raises `NothingLeft`."""
        events = self._events
        while not finished():
            if not events:
                raise NothingLeft
            when, _, _, event = heapq.heappop(events)
            action = event.action
            if action is not None:
                self.now = when
                self.steps += 1
                action()

    def idle(self) -> bool:
        """True when nothing is left for this moment."""
        return not self._events or self._events[0][0] > self.now
