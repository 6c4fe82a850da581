"""Outgoing frames of one node, and requests that wait for their peer to read or for another turn.

All frames of a turn are sent in one write per connection. Only large responses are sent immediately, so that their
memory is reused while it is in the processor's cache. While a peer has more than `high` unread bytes, its requests are
not run and its socket is not read. Requests that were already read wait here in order. So a peer that never reads costs
its unread bytes, one more response, and the requests of one read. Requests that exceed the time of a turn also wait
here, for the next turn (`postpone`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome
from bolide.node.loop.host_protocol import Host
from bolide.remoting.codec import Outgoing
from bolide.remoting.command import Command

AT_ONCE: Final = 128 * 1024
"""Size in bytes from which frames of a connection are sent before the end of the turn."""


@final
class WaitingRequest:
    """A waiting request. `again` continues it, or is None if it has not started. `since`: time (ms) since which it has
    waited for a turn, or -1 if it waits for its peer or is not counted."""

    def __init__(
        self,
        command: Command,
        not_served: frozenset[int],
        again: Callable[[int], Outcome] | None,
        rounds: int,
        since: int = -1,
    ) -> None:
        self.command: Command = command
        self.not_served: frozenset[int] = not_served
        self.again: Callable[[int], Outcome] | None = again
        self.rounds: int = rounds
        self.since: int = since


@final
class Outbox:
    """Outgoing frames of one executor. `host` writes and pauses reading."""

    def __init__(self, host: Host, high: int) -> None:
        self._host: Host = host
        self._high: i64 = high
        self._dirty: list[Channel] = []
        self._waiting: dict[int, deque[WaitingRequest]] = {}
        self._ready: list[Channel] = []
        self.unread: i64 = 0
        """Total bytes that the peers had not read at the last write to each of them."""

    # ---- frames

    def send(self, channel: Channel, message: Outgoing) -> None:
        """Encode a message for its connection, and send it at the end of this turn, or now if it has a large body."""
        if not channel.alive:
            return
        pieces = channel.codec.encode(message)
        size = 0
        for piece in pieces:
            size += len(piece)
        channel.frames.extend(pieces)
        channel.queued += size
        if not channel.dirty:
            channel.dirty = True
            self._dirty.append(channel)
        if len(pieces) > 1:
            channel.bodies = True
            if channel.queued - channel.unread >= AT_ONCE:
                self._write(channel)

    def write_all(self) -> None:
        """Write the queued frames, one write per connection. Called at the end of a turn."""
        dirty = self._dirty
        if dirty:
            self._dirty = []
        for channel in dirty:
            channel.dirty = False
            if channel.alive and channel.frames:
                self._write(channel)
        if self._ready:
            self._host.another_turn()

    def _write(self, channel: Channel) -> None:
        unread: int = self._host.write(channel)
        self._left_unread(channel, unread)

    def _left_unread(self, channel: Channel, unread: int) -> None:
        self.unread += unread - channel.unread
        channel.unread = unread
        channel.queued = unread
        if channel.waits and unread <= self._high:
            self.make_ready(channel)

    # ---- waiting requests

    def make_ready(self, channel: Channel) -> None:
        """Run the waiting requests of this channel in the next turn, after the channels scheduled before it."""
        if not channel.ready:
            channel.ready = True
            self._ready.append(channel)

    def postpone(self, channel: Channel, waiting: WaitingRequest) -> None:
        """Keep a request for the next turn."""
        self.wait(channel, waiting)
        self.make_ready(channel)

    @property
    def for_next_turn(self) -> int:
        """Number of connections with requests that wait for the next turn."""
        return len(self._ready)

    def waiting_for_turn(self, codes: frozenset[int]) -> tuple[int, int]:
        """Return how many requests with these codes wait for a turn, and the time (ms) since which the oldest one has
        waited."""
        count = 0
        first = 0
        for requests in self._waiting.values():
            for waiting in requests:
                if waiting.since >= 0 and waiting.command.code in codes:
                    first = waiting.since if count == 0 else min(first, waiting.since)
                    count += 1
        return count, first

    def full(self, channel: Channel) -> bool:
        """Return whether new requests of this channel must wait: too many unread bytes, or older requests are
        waiting."""
        return channel.queued > self._high or channel.waits

    def wait(self, channel: Channel, waiting: WaitingRequest) -> None:
        """Keep a request until `make_ready`, or until its peer has caught up."""
        if not channel.waits:
            channel.waits = True
            self._waiting[channel.id] = deque()
            self._host.pause_reading(channel)
        self._waiting[channel.id].append(waiting)

    def caught_up(self, channel: Channel) -> None:
        """Called when the socket's buffer is nearly empty again. Frames of this turn may not be written yet."""
        frames = channel.queued - channel.unread
        self._left_unread(channel, 0)
        channel.queued = frames
        if self._ready:
            self._host.another_turn()

    def take_ready(self) -> list[Channel]:
        """Remove and return the channels whose waiting requests may run now."""
        ready = self._ready
        if ready:
            self._ready = []
            for channel in ready:
                channel.ready = False
        return ready

    def next(self, channel: Channel) -> WaitingRequest | None:
        """Remove and return the oldest waiting request, or None if there is none or the peer must read first."""
        if not channel.waits or channel.queued > self._high:
            return None
        waiting = self._waiting[channel.id]
        if waiting:
            return waiting.popleft()
        self._forget(channel)
        self._host.resume_reading(channel)
        return None

    def closed(self, channel: Channel) -> None:
        """Remove a closed connection."""
        self.unread -= channel.unread
        channel.unread = 0
        channel.queued = 0
        channel.frames = []
        if channel.waits:
            self._forget(channel)

    def _forget(self, channel: Channel) -> None:
        channel.waits = False
        del self._waiting[channel.id]
