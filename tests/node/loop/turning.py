"""An event loop and a host that run when the test says so."""

from __future__ import annotations

from typing import Any

from bolide.broker.core.channel import Channel
from bolide.node.loop.turns import Turns
from tests.node.loop.executing import NotingHost


class Loop:
    """Runs what is to be called soon when the test says so; keeps the time."""

    def __init__(self) -> None:
        self.soon: list[Any] = []
        self.passed = 0

    def call_soon(self, call: Any) -> None:
        self.soon.append(call)

    def call_later(self, seconds: float, call: Any) -> Loop:
        return self

    def cancel(self) -> None:
        return None

    def turn(self) -> None:
        """One turn of the loop, of which the sockets were read already."""
        soon, self.soon = self.soon, []
        for call in soon:
            call()


class PatientHost(NotingHost):
    """Notes from whom nothing is read."""

    def __init__(self) -> None:
        super().__init__()
        self.held_back: set[int] = set()
        self.turns_of: Turns | None = None

    def pause_reading(self, channel: Channel) -> None:
        self.held_back.add(channel.id)

    def resume_reading(self, channel: Channel) -> None:
        self.held_back.discard(channel.id)

    def another_turn(self) -> None:
        assert self.turns_of is not None
        self.turns_of.schedule()


class Ringing(Loop):
    """Keeps what is to be called later."""

    def __init__(self) -> None:
        super().__init__()
        self.later: list[tuple[float, Any]] = []

    def call_later(self, seconds: float, call: Any) -> Loop:
        self.later.append((seconds, call))
        return self

    def ring(self) -> None:
        """The time of the last timer has come."""
        seconds, call = self.later.pop()
        self.passed += round(seconds * 1000)
        call()

    def next(self) -> bool:
        """A turn that was asked for, or else the timer; False when there is neither."""
        if self.soon:
            self.turn()
            return True
        if self.later:
            self.ring()
            return True
        return False
