"""Requests of the broker to clients, on behalf of requests of other clients."""

from __future__ import annotations

from typing import final

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Ask
from bolide.remoting.command import Command


@final
class PendingRequest:
    """A request to a client on behalf of `command`, which `channel` sent. `ask.then` turns the client's response into
    the outcome of `command`."""

    def __init__(self, channel: Channel, command: Command, ask: Ask, deadline: int) -> None:
        self.channel: Channel = channel
        self.command: Command = command
        self.ask: Ask = ask
        self.deadline: int = deadline


@final
class PendingRequests:
    """Pending requests to clients. There are few at a time, so lookups scan all of them."""

    def __init__(self) -> None:
        self._asked: dict[int, PendingRequest] = {}
        self._opaque: int = 0

    def next_opaque(self) -> int:
        """Return a number for a request of the broker, unique for far longer than any request is pending."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    def add(self, asked: PendingRequest) -> None:
        """Register a request and assign its opaque."""
        opaque = self.next_opaque()
        asked.ask.command.opaque = opaque
        self._asked[key_of(asked.ask.channel, opaque)] = asked

    def answered(self, channel: Channel, response: Command) -> PendingRequest | None:
        """Remove and return the request that a response belongs to, or None if it timed out or never existed."""
        return self._asked.pop(key_of(channel, response.opaque), None)

    def take_late(self, now: int) -> list[PendingRequest]:
        """Remove and return the requests whose deadline has passed."""
        return [self._asked.pop(key) for key in [key for key, asked in self._asked.items() if asked.deadline <= now]]

    def take_of(self, channel: Channel) -> list[PendingRequest]:
        """Remove and return the requests to a client that has disconnected."""
        return [self._asked.pop(key) for key in [k for k, asked in self._asked.items() if asked.ask.channel is channel]]

    def next_deadline(self, no_later_than: int) -> int:
        """Return when `take_late` will have a result, but at most `no_later_than`."""
        for asked in self._asked.values():
            if asked.deadline < no_later_than:
                no_later_than = asked.deadline
        return no_later_than


def key_of(channel: Channel, opaque: int) -> int:
    """Return a key for a request of the broker. `opaque` alone is unique only within a connection and direction."""
    return channel.id << 32 | (opaque & 0xFFFFFFFF)
