"""Connections of a server without a log (name server, controller), served in turns that no client can monopolize.

Requests read in one turn of the loop are served for a few milliseconds. The rest waits for the next turn, client by
client. A client is not read until its requests are served and its responses read.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

from bolide.node.loop.clock import Clock
from bolide.node.loop.front import REFUSALS_MS
from bolide.node.loop.refusals import Refusals
from bolide.node.ports.addresses import host_port
from bolide.remoting import codes
from bolide.remoting.command import Command, encode, make_response
from bolide.remoting.errors import FrameError
from bolide.transport.server import ServerConnection
from bolide.transport.unfinished import Unfinished

MAX_FRAME: Final = 16 * 1024 * 1024
WRITE_HIGH: Final = 1024 * 1024
WRITE_LIMIT: Final = 64 * 1024 * 1024
IDLE_SWEEP_S: Final = 10.0
TURN_MS: Final = 15
"""Maximum time for requests read in one turn. The rest waits for the next turn, client by client."""


class Peer:
    """One connection. `id`: its number in the server."""

    def __init__(self, id: int, connection: ServerConnection) -> None:
        self.id = id
        self.connection = connection
        self.remote = host_port(connection.remote_ip, connection.remote_port)
        self.waiting: deque[Command] = deque()
        """Unserved commands of one read. The socket is not read while there are any."""
        self.behind = False
        self.queued = False
        """Whether the peer is queued for the next turn."""


class Answers(Protocol):
    """The server that handles the requests."""

    @property
    def max_connections(self) -> int:
        """Current limit of open connections."""

    @property
    def max_idle_seconds(self) -> int:
        """Idle time in seconds after which a connection is closed."""

    def answer(self, peer: Peer, command: Command, now: int) -> Command | None:
        """Handle a command. Return the response to send now, or None if there is none or `Peers.send` sends it
        later."""

    def is_ordinary(self, request: Command, answer: Command) -> bool:
        """Return whether this error response is part of normal operation and need not be logged."""

    def peer_closed(self, peer: Peer, now: int) -> None:
        """Called when a connection closes."""


class Peers:
    """Implements `transport.server.Owner` for one server, `answers`."""

    def __init__(self, answers: Answers, clock: Clock, log: logging.Logger, unfinished: Unfinished) -> None:
        self._answers = answers
        self._clock = clock
        self._log = log
        self._unfinished = unfinished
        self._refusals = Refusals(log)
        self._peers: dict[int, Peer] = {}
        self._serial = 0
        self._turn_end = 0
        self._turn_ends = False
        self._next_turn: deque[Peer] = deque()
        self._refused_at = 0
        self.requests = 0
        """Number of received requests."""

    def __len__(self) -> int:
        return len(self._peers)

    def __iter__(self) -> Iterator[Peer]:
        return iter(list(self._peers.values()))

    def close(self, peer_id: int, reason: str) -> None:
        """Close a connection, if it is open."""
        peer = self._peers.get(peer_id)
        if peer is not None:
            self._log.info("closing the connection of %s: %s", peer.remote, reason)
            peer.connection.close()

    async def close_all(self) -> None:
        """Close every connection."""
        for peer in self:
            peer.connection.close()

    def send(self, peer: Peer, request: Command, answer: Command) -> None:
        """Send a deferred response. Does nothing if the peer has disconnected."""
        if peer.id not in self._peers:
            return
        if not self._answers.is_ordinary(request, answer):
            self._refusals.note(peer.remote, request, answer, self._clock.now())
        if peer.connection.write([encode_or_refuse(request, answer)]) > 0:
            peer.behind = True

    def send_kept(self, peer: Peer | None, request: Command | None, answer: Command | None, error: str) -> None:
        """Send the response to a request once its change is on disk, or an error if the write failed.

        Does nothing without a request.
        """
        if peer is None or request is None or answer is None:
            return
        if error:
            answer = make_response(request, codes.SYSTEM_ERROR, f"it is done, but a restart may undo it: {error}")
        self.send(peer, request, answer)

    async def close_idle(self) -> None:
        """Periodically close idle connections, until cancelled."""
        while True:
            await asyncio.sleep(IDLE_SWEEP_S)
            idle_ms = self._answers.max_idle_seconds * 1000
            self._unfinished.close_late()
            now = self._clock.now()
            for peer in self:
                connection: Any = peer.connection
                if connection.used:
                    connection.used = False
                    connection.idle_since = now
                elif now - connection.idle_since >= idle_ms:
                    connection.close_idle()

    # ---- called by the transport

    def connected(self, connection: ServerConnection) -> Peer | None:
        """Accept a connection, or return None if the limit is reached."""
        most = self._answers.max_connections
        if len(self._peers) >= most:
            now = self._clock.now()
            if now - self._refused_at >= REFUSALS_MS:
                self._refused_at = now
                self._log.warning(
                    "refusing connections: %d are open, the limit by maxConnections and the limit of open files "
                    "(ulimit -n)",
                    most,
                )
            return None
        self._serial += 1
        peer = Peer(self._serial, connection)
        connection.idle_since = self._clock.now()
        self._peers[peer.id] = peer
        return peer

    def received(self, peer: Peer, commands: list[Command]) -> None:
        """Serve the requests of one read with one write, unless their responses exceed the write buffer."""
        self.requests += len(commands)
        peer.waiting.extend(commands)
        if not self._turn_ends:
            self._end_turn_soon()
            self._turn_end = self._clock.now() + TURN_MS
        if not peer.queued:
            self._serve(peer)

    def caught_up(self, peer: Peer) -> None:
        """Called when the peer has read its responses: continue with its requests."""
        peer.behind = False
        if not peer.queued:
            self._serve_later(peer)

    def bad_frame(self, peer: Peer, error: Exception) -> None:
        """Log one line about a client that violates the protocol."""
        self._log.warning("closing the connection of %s: %s", peer.remote, error)

    def proxied(self, peer: Peer, connection: ServerConnection) -> None:
        """Update the address of a client behind a load balancer."""
        peer.remote = host_port(connection.remote_ip, connection.remote_port)

    def closed(self, peer: Peer) -> None:
        """Called when a connection closes."""
        peer.waiting.clear()
        if self._peers.pop(peer.id, None) is not None:
            self._answers.peer_closed(peer, self._clock.now())

    # ---- turns

    def _serve_later(self, peer: Peer) -> None:
        peer.queued = True
        self._next_turn.append(peer)
        self._end_turn_soon()

    def _end_turn_soon(self) -> None:
        if not self._turn_ends:
            self._turn_ends = True
            asyncio.get_running_loop().call_soon(self._end_of_turn)

    def _end_of_turn(self) -> None:
        """Called once all ready sockets are read: serve the waiting peers one after the other, for at most TURN_MS."""
        self._turn_ends = False
        self._turn_end = self._clock.now() + TURN_MS
        for _ in range(len(self._next_turn)):
            peer = self._next_turn.popleft()
            peer.queued = False
            self._serve(peer)
            if not (peer.waiting or peer.behind):
                peer.connection.resume_reading()
            if self._clock.now() >= self._turn_end:
                break
        if self._next_turn:
            self._end_turn_soon()

    def _serve(self, peer: Peer) -> None:
        now = self._clock.now()
        while peer.waiting and not peer.behind:
            if now >= self._turn_end:
                self._serve_later(peer)
                break
            frames: list[bytes] = []
            size = 0
            while peer.waiting and size <= WRITE_HIGH and now < self._turn_end:
                command = peer.waiting.popleft()
                answer = self._answer(peer, command, now)
                if answer is not None:
                    if not self._answers.is_ordinary(command, answer):
                        self._refusals.note(peer.remote, command, answer, now)
                    frames.append(encode_or_refuse(command, answer))
                    size += len(frames[-1])
                now = self._clock.now()
            peer.behind = peer.connection.write(frames) > 0
        if peer.waiting:
            peer.connection.pause_reading()

    def _answer(self, peer: Peer, command: Command, now: int) -> Command | None:
        try:
            return self._answers.answer(peer, command, now)
        except Exception as error:  # the only boundary: an internal error becomes an error response, not a crash
            self._log.exception("request %d of %s failed", command.code, peer.remote)
            if command.is_oneway:
                return None
            return make_response(command, codes.SYSTEM_ERROR, f"{type(error).__name__}: {error}")


def encode_or_refuse(request: Command, answer: Command) -> bytes:
    """Encode a response. If it is too long for the protocol, encode an error with code 1 instead."""
    try:
        return encode(answer)
    except FrameError as error:
        return encode(make_response(request, codes.SYSTEM_ERROR, f"FrameError: {error}"))
