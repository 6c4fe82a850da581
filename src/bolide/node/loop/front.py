"""Connects the sockets of one port to the executor: creates channels and starts turns."""

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
"""The clock is read after light requests (declared in their routes) of this total weight, and after every other
request."""
REFUSALS_MS: Final = 1000
"""Interval between log lines about refused connections."""


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
        """Apply new limits."""
        self.limit = limit
        self._idle_ms = idle_ms

    def next_id(self) -> int:
        """Return a unique id for a channel."""
        self._serial += 1
        return self._serial

    def refusals_to_tell(self, now: int) -> int:
        """Count a refused connection. Return the number to log, or 0 within a second of the last line."""
        self._refused += 1
        if 0 <= now - self._told < REFUSALS_MS:
            return 0
        self._told = now
        count = self._refused
        self._refused = 0
        return count

    def idle(self, now: int) -> list[Channel]:
        """Return the channels without traffic for the idle time. The caller closes them."""
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
        """Start time of the current read."""
        self._light: int = 0
        """Weight of the light requests of this read since the clock was last read."""
        self._since: int = -1
        """Time (ms) since which the rest of the read has waited for another turn, or -1 if this turn has time left."""

    def connected(self, connection: ServerConnection) -> Channel | None:
        """Create the channel of a new connection. Return None if the limit of connections is reached."""
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

    def take(self, peer: Channel, data: bytes, long: tuple[bytes, bytes] | None = None) -> int:
        """Start a read: update the admission control once, and serve the simple sends at its start: `long`, a frame in
        two parts, then the frames in `data`. Return the bytes of `data` used, or -1 if `long` was not served.

        The clock is read at the same requests whether they are served here or in `received`. So a simulated run is the
        same with and without the native kernel.
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
            self._since = now - lag  # all data of this read was ready when the turn started
            return 0 if long is None else -1
        executor.gate.look(now, lag)
        used = 0
        if long is not None and not self._take_long(peer, long, now):
            return -1
        if not peer.sends or not self._sends_served or self._light or self._since >= 0:
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

    def _take_long(self, peer: Channel, long: tuple[bytes, bytes], now: int) -> bool:
        """Serve a simple send whose frame is in two parts. Return whether it was one."""
        if not self._sends_served:
            return False
        taken = self._turns.executor.take_long_send(peer, long[0], long[1], now)
        if taken is None:
            return False
        if taken.weight < LIGHT_AT_ONCE:
            self._light = taken.weight
        else:
            self._since = self._turns.late()
            if self._since >= 0:
                self._now = self._since
        return True

    def received(self, peer: Channel, commands: list[Command]) -> None:
        """Handle the rest of a read after `take`. The turn ends when all ready sockets have been read."""
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
        """Log one line about a client that violates the protocol."""
        self._stats.bad_frames += 1
        self._log.warning("closing the connection of %s: %s", peer.remote, error)

    def proxied(self, peer: Channel, connection: ServerConnection) -> None:
        """Update the address of a channel after a PROXY header of a load balancer."""
        peer.remote = f"{connection.remote_ip}:{connection.remote_port}"
        peer.remote_host = encode_host(connection.remote_ip, connection.remote_port)

    def caught_up(self, peer: Channel) -> None:
        """Called when the peer has read pending bytes: run the requests that waited for this."""
        self._turns.executor.outbox.caught_up(peer)

    def closed(self, peer: Channel) -> None:
        """Remove a closed channel."""
        self._connections.channels.pop(peer.id, None)
        self._turns.executor.closed(peer, self._turns.now())
