"""Between the sockets of one port and the executor: channels are made here, and turns are begun here."""

from __future__ import annotations

import logging
from typing import Final, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.stats import BrokerStats
from bolide.broker.send.plain_sends import LIGHT_BODY
from bolide.layout.message_id import encode_host
from bolide.node.loop.executor import PLAIN_SENDS
from bolide.node.loop.turns import READS_MS, Turns
from bolide.remoting.command import Command
from bolide.transport.server import ServerConnection

LIGHT_AT_ONCE: Final = 32
"""The clock is read when light requests (their rows say so) weigh so much, and after each request of another kind."""
REFUSALS_MS: Final = 1000
"""Refused connections are logged once in this time."""


@final
class Connections:
    """The open connections of one node, over all its ports."""

    def __init__(self, limit: int, idle_ms: int) -> None:
        self.channels: dict[int, Channel] = {}
        self.limit: int = limit
        self._idle_ms: int = idle_ms
        self._serial: int = 0
        self._refused: int = 0
        self._told: int = 0

    def configure(self, limit: int, idle_ms: int) -> None:
        """Take over other limits."""
        self.limit = limit
        self._idle_ms = idle_ms

    def next_id(self) -> int:
        """A number no other channel of this process has."""
        self._serial += 1
        return self._serial

    def refusals_to_tell(self, now: int) -> int:
        """Count a refused connection; returns how many to log, 0 within a second of the last line."""
        self._refused += 1
        if 0 <= now - self._told < REFUSALS_MS:
            return 0
        self._told = now
        count = self._refused
        self._refused = 0
        return count

    def idle(self, now: int) -> list[Channel]:
        """Channels over which nothing went for the idle time; the caller closes them."""
        late: list[Channel] = []
        for channel in self.channels.values():
            link = channel.link
            if link.used:
                link.used = False
                link.idle_since = now
            elif now - link.idle_since >= self._idle_ms:
                late.append(channel)
        return late


@final
class Front:
    """Serves one port. Implements `transport.server.Owner` and `Taker`."""

    def __init__(
        self,
        turns: Turns,
        connections: Connections,
        stats: BrokerStats,
        log: logging.Logger,
        not_served: frozenset[int],
    ) -> None:
        self._turns: Turns = turns
        self._connections: Connections = connections
        self._stats: BrokerStats = stats
        self._log: logging.Logger = log
        self._not_served: frozenset[int] = not_served
        self._sends_served: bool = not_served.isdisjoint(PLAIN_SENDS)
        self._now: int = 0
        """When the read in hand began."""
        self._light: int = 0
        """What its light requests weigh since the clock was read."""
        self._since: int = -1
        """Since when what is left of it waits for another turn; -1 while this one has time."""

    def connected(self, connection: ServerConnection) -> Channel | None:
        """Make the channel of a new connection, or refuse it when there are too many."""
        table = self._connections
        remote = f"{connection.remote_ip}:{connection.remote_port}"
        if len(table.channels) >= table.limit:
            count = table.refusals_to_tell(self._turns.now())
            if count:
                self._log.warning(
                    "refused a connection of %s (%d since the last such line): %d are open, the limit by "
                    "maxConnections and the limit of open files (ulimit -n)",
                    remote,
                    count,
                    table.limit,
                )
            return None
        host = encode_host(connection.remote_ip, connection.remote_port)
        channel = Channel(table.next_id(), host, remote, connection.local_port)
        channel.link = connection
        connection.taker = self
        connection.idle_since = self._turns.now()
        table.channels[channel.id] = channel
        self._stats.connections += 1
        return channel

    def take(self, peer: Channel, data: bytes) -> int:
        """Begin a read: one look at the gate for all of it. Serve the plain sends at the front; the bytes they take.

        The clock is read at the same requests whether they are served here or in `received`, so a simulated run is the
        same with the native kernel and without it.
        """
        turns = self._turns
        now = turns.now()
        executor = turns.executor
        lag = turns.lag(now)
        turns.schedule()
        self._now = now
        self._light = 0
        self._since = -1
        if lag >= READS_MS:
            self._since = now - lag  # all of it was ready when the turn began
            return 0
        executor.gate.look(now, lag)
        used = 0
        if not peer.sends or not self._sends_served:
            return used
        size = len(data)
        while used < size:
            taken = executor.take_sends(peer, data, used, LIGHT_AT_ONCE, now)
            if taken is None:
                break
            used = taken.used
            if taken.weight < LIGHT_AT_ONCE:
                self._light = taken.weight
                break
            self._since = turns.late()
            if self._since >= 0:
                self._now = self._since
                break
        return used

    def received(self, peer: Channel, commands: list[Command]) -> None:
        """Handle what `take` left of a read; the turn it belongs to ends when all sockets of this turn were read."""
        turns = self._turns
        now = self._now
        executor = turns.executor
        if self._since >= 0:
            self._postpone(peer, commands, 0, self._since, now)
            return
        light_codes = executor.light
        count = len(commands)
        at = 0
        light = self._light
        while at < count:
            command = commands[at]
            at += 1
            executor.handle(peer, command, self._not_served, now)
            if command.code in light_codes:
                light += 1 + len(command.body) // LIGHT_BODY
                if light < LIGHT_AT_ONCE:
                    continue
            elif at == count:
                return
            light = 0
            late = turns.late()
            if late >= 0:
                self._postpone(peer, commands, at, late, late)
                return

    def _postpone(self, peer: Channel, commands: list[Command], at: int, since: int, now: int) -> None:
        executor = self._turns.executor
        while at < len(commands):
            executor.postpone(peer, commands[at], self._not_served, since, now)
            at += 1

    def bad_frame(self, peer: Channel, error: Exception) -> None:
        """One line for a peer that breaks the protocol."""
        self._stats.bad_frames += 1
        self._log.warning("closing the connection of %s: %s", peer.remote, error)

    def proxied(self, peer: Channel, connection: ServerConnection) -> None:
        """The channel belongs to a client behind a load balancer."""
        peer.remote = f"{connection.remote_ip}:{connection.remote_port}"
        peer.remote_host = encode_host(connection.remote_ip, connection.remote_port)

    def caught_up(self, peer: Channel) -> None:
        """The peer has read what was sent: what it asked meanwhile is run."""
        self._turns.executor.outbox.caught_up(peer)

    def closed(self, peer: Channel) -> None:
        """Forget a channel."""
        self._connections.channels.pop(peer.id, None)
        self._turns.executor.closed(peer, self._turns.now())
