"""The broker's requests to clients, and the requests of other clients that wait for the answers."""

from __future__ import annotations

from typing import final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Ask
from bolide.remoting.command import Command


@final
class PendingRequest:
    """`channel` sent `command`, which is answered with what `ask.then` makes of the other client's answer."""

    def __init__(self, channel: Channel, command: Command, ask: Ask, deadline: int) -> None:
        self.channel: Channel = channel
        self.command: Command = command
        self.ask: Ask = ask
        self.deadline: int = deadline


@final
class PendingRequests:
    """What is asked and not answered yet: few at a time, so they are found by looking at all of them."""

    def __init__(self) -> None:
        self._asked: dict[int, PendingRequest] = {}
        self._opaque: int = 0

    def next_opaque(self) -> int:
        """A number for a request of the broker; unique for far longer than any request waits."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    def add(self, asked: PendingRequest) -> None:
        """Wait for the answer to this request; numbers its command."""
        opaque = self.next_opaque()
        asked.ask.command.opaque = opaque
        self._asked[key_of(asked.ask.channel, opaque)] = asked

    def answered(self, channel: Channel, response: Command) -> PendingRequest | None:
        """Who waits for this response; None when nobody does (it came too late, or was never asked for)."""
        return self._asked.pop(key_of(channel, response.opaque), None)

    def take_late(self, now: int) -> list[PendingRequest]:
        """Those whose time is over."""
        return [self._asked.pop(key) for key in [key for key, asked in self._asked.items() if asked.deadline <= now]]

    def take_of(self, channel: Channel) -> list[PendingRequest]:
        """Those that waited for a client that is gone."""
        return [self._asked.pop(key) for key in [k for k, asked in self._asked.items() if asked.ask.channel is channel]]

    def next_deadline(self, no_later_than: int) -> int:
        """When `take_late` has something to give, or the argument when that is earlier."""
        for asked in self._asked.values():
            if asked.deadline < no_later_than:
                no_later_than = asked.deadline
        return no_later_than


def key_of(channel: Channel, opaque: int) -> int:
    """One number for a request of the broker: opaque alone is unique only within a connection and direction."""
    return channel.id << 32 | (opaque & 0xFFFFFFFF)
