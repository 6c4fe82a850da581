"""Between the sockets of one port and the executor: channels are made here, and turns are begun here."""

from __future__ import annotations

import logging
from typing import Final, final

from bolide.broker.core.channel import Channel
from bolide.broker.core.stats import BrokerStats
from bolide.layout.message_id import encode_host
from bolide.node.loop.executor import PLAIN_SENDS
from bolide.node.loop.turns import READS_MS, Turns
from bolide.remoting.command import Command
from bolide.transport.server import ServerConnection

LIGHT_AT_ONCE: Final = 32
"""The clock is read after so many light requests (their rows say so), and after each request of another kind."""
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

    def connected(self, connection: ServerConnection) -> Channel | None:
        """Make the channel of a new connection, or refuse it when there are too many."""
        table = self._connections
        remote = f"{connection.remote_ip}:{connection.remote_port}"
        if len(table.channels) >= table.limit:
            count = table.refusals_to_tell(self._turns.now())
            if count:
                self._log.warning(
                    "connection of %s refused (%d since the last such line): %d are open, as many as maxConnections "
                    "and the limit of open files (ulimit -n) allow",
                    remote,
                    count,
                    table.limit,
                )
            return None
        host = encode_host(connection.remote_ip, connection.remote_port)
        channel = Channel(table.next_id(), host, remote, connection.local_port)
        channel.link = connection
        if self._turns.executor.plain is not None and self._sends_served:
            connection.taker = self
        connection.idle_since = self._turns.now()
        table.channels[channel.id] = channel
        self._stats.connections += 1
        return channel

    def take(self, peer: Channel, data: bytes) -> int:
        """Serve the plain sends at the front of these frames; the bytes they take. A clock and a look for all."""
        if not peer.sends:
            return 0
        turns = self._turns
        now = turns.now()
        executor = turns.executor
        lag = turns.lag(now)
        turns.schedule()
        if lag >= READS_MS:
            return 0
        executor.gate.look(now, lag)
        return executor.take_sends(peer, data, now)

    def received(self, peer: Channel, commands: list[Command]) -> None:
        """Handle the commands of one read; the turn they belong to ends when all sockets of this turn were read."""
        turns = self._turns
        now = turns.now()
        executor = turns.executor
        lag = turns.lag(now)
        turns.schedule()
        if lag >= READS_MS:
            self._postpone(peer, commands, 0, now - lag, now)  # all of it was ready when the turn began
            return
        executor.gate.look(now, lag)
        light_codes = executor.light
        count = len(commands)
        at = 0
        light = 0
        while at < count:
            command = commands[at]
            at += 1
            executor.handle(peer, command, self._not_served, now)
            if at == count:
                return
            if command.code in light_codes:
                light += 1
                if light < LIGHT_AT_ONCE:
                    continue
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
