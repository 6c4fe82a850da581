"""The server side of a remoting connection with asyncio: reads commands from sockets and writes frames, with limits.

`remoting.connection` handles frames, and the owner handles commands. This module handles the socket: the peer's
address, back-pressure, and idle time (idle connections are closed after 120 s, as in RocketMQ's NettyServerConfig). An
invalid frame closes its connection and logs one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, final

from bolide.errors import ProtocolError
from bolide.remoting.command import Command
from bolide.remoting.connection import FramedConnection
from bolide.transport.unfinished import Unfinished


class Owner(Protocol):
    """The owner of the connections of one port. All methods are called on the loop."""

    def connected(self, connection: ServerConnection) -> Any:
        """Called for a new connection; returns the object for it, or None to reject it."""

    def received(self, peer: Any, commands: list[Command]) -> None:
        """Called with the commands of one read, in order."""

    def bad_frame(self, peer: Any, error: Exception) -> None:
        """Called when the peer violated the protocol; its connection is being closed."""

    def proxied(self, peer: Any, connection: ServerConnection) -> None:
        """Called before any command when a load balancer has sent the address of its client, which replaces the
        previous one."""

    def caught_up(self, peer: Any) -> None:
        """Called when a slow peer (see the result of `write`) has read most of the unsent bytes."""

    def closed(self, peer: Any) -> None:
        """Called after either side closed the connection."""


class Taker(Protocol):
    """Receives frames before they are decoded, and may handle them directly."""

    def take(self, peer: Any, data: bytes, long: tuple[bytes, bytes] | None) -> int:
        """Handle the first frames of a read: `long` (head and body of a frame), then the frames at the start of `data`.

        `data` may end with an incomplete frame. Returns the number of bytes of `data` handled, or -1 if the owner must
        handle `long`.
        """


@final
class ServerConnection:
    """One accepted connection. It has the methods of asyncio.Protocol, but is not a subclass, so that it can be
    compiled."""

    def __init__(
        self, owner: Owner, max_frame: int, write_high: int, write_limit: int, frames: Unfinished | None = None
    ) -> None:
        self._owner: Any = owner
        self._frames: Unfinished | None = frames
        self._unfinished: int = 0
        self._took: bool = False
        """Whether frames of the last read were handled directly."""
        self._core: FramedConnection = FramedConnection(max_frame)
        self._transport: Any = None
        self._peer: Any = None
        self._write_high: int = write_high
        self._write_limit: int = write_limit
        self._choked: bool = False
        self._held_back: bool = False
        self._closing: bool = False
        self.remote_ip: str = ""
        self.remote_port: int = 0
        self.local_port: int = 0
        self.taker: Any = None
        """The `Taker` of this connection, or None."""
        self.used: bool = False
        """Whether bytes were sent or received since `idle_since` was set; see the node's idle sweep."""
        self.idle_since: int = 0
        """Time in ms since the epoch at which the node's idle sweep last found the connection in use."""

    # ---- called by asyncio

    def connection_made(self, transport: Any) -> None:
        """Handle a new connection."""
        self._transport = transport
        transport.set_write_buffer_limits(high=self._write_high)
        peer = transport.get_extra_info("peername") or ("0.0.0.0", 0)
        self.remote_ip = str(peer[0]).partition("%")[0]
        self.remote_port = int(peer[1])
        own = transport.get_extra_info("sockname") or ("0.0.0.0", 0)
        self.local_port = int(own[1])
        self.used = True
        self._peer = self._owner.connected(self)
        if self._peer is None:
            self._closing = True
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Process received bytes; pass all complete commands to the owner."""
        if self._closing:
            return
        self.used = True
        try:
            if self.taker is not None:
                commands = self._take_first(data)
            else:
                commands = self._core.receive(data)
        except ProtocolError as error:
            self._bad(error)
            return
        unfinished = self._core.buffered_bytes
        if unfinished != self._unfinished or (unfinished > 0 and (commands or self._took)):
            self._unfinished = unfinished
            if self._frames is not None:
                self._frames.note(self, unfinished, self._took or len(commands) > 0)
        if commands:
            self._owner.received(self._peer, commands)

    def _take_first(self, data: bytes) -> list[Command]:
        """Return the commands that the taker did not handle."""
        core = self._core
        self._took = False
        frames = core.gather(data)
        long = core.long
        if long is None and not frames:
            return []
        taken: int = self.taker.take(self._peer, frames, long)
        if taken < 0:
            return core.cut(frames, 0)
        if long is not None:
            core.long = None
        self._took = taken > 0 or long is not None
        return core.cut(frames, taken)

    def eof_received(self) -> bool:
        """Handle an end of input; pending responses are lost, as in RocketMQ."""
        try:
            self._core.receive_eof()
        except ProtocolError as error:
            self._bad(error)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._closing = True
        if self._unfinished > 0 and self._frames is not None:
            self._frames.note(self, 0, False)
        peer, self._peer = self._peer, None
        if peer is not None:
            self._owner.closed(peer)

    def pause_writing(self) -> None:
        """Called when the peer reads too slowly: do not read further requests from it until it has caught up."""
        self._choked = True
        if not self._closing:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Resume after the peer has read enough."""
        self._choked = False
        if not self._closing:
            if not self._held_back:
                self._transport.resume_reading()
            self._owner.caught_up(self._peer)

    # ---- called by the ingress, before any frame

    @property
    def closing(self) -> bool:
        """Whether the connection no longer accepts frames."""
        return self._closing

    def set_client_address(self, ip: str, port: int) -> None:
        """Set the client address from a PROXY preamble."""
        self.remote_ip = ip
        self.remote_port = port
        self._owner.proxied(self._peer, self)

    def replace_transport(self, transport: Any) -> None:
        """Write through another transport, which encrypts."""
        self._transport = transport

    def keeps(self, size: int) -> None:
        """Record `size` bytes of an incomplete preamble, TLS handshake or TLS record, before or below the frames."""
        total = size + self._core.buffered_bytes
        if total != self._unfinished and not self._closing:
            self._unfinished = total
            if self._frames is not None:
                self._frames.note(self, total, False)

    def refuse(self, error: ProtocolError) -> None:
        """Close the connection because of the bytes before the first frame."""
        if not self._closing:
            self._bad(error)

    # ---- called by the owner

    def write(self, frames: list[Any], bodies: bool = False) -> int:
        """Send these buffers in one write. If they contain `bodies`, they are not joined by copying.

        Disconnects a peer that leaves more than the limit unread. Returns the number of unread bytes if it exceeds the
        high-water mark, else 0.
        """
        if self._closing or not frames:
            return 0
        self.used = True
        if len(frames) == 1:
            self._transport.write(frames[0])
        elif bodies:
            self._transport.writelines(frames)
            if not self._choked and self._transport.get_write_buffer_size() > self._write_high:
                # writelines of asyncio 3.12.0 to 3.12.8, 3.13.0 and 3.13.1 does not call pause_writing; check the mark
                # here.
                self._transport.set_write_buffer_limits(high=self._write_high)
        else:
            self._transport.write(b"".join(frames))
        if not self._choked:
            return 0
        unread: int = self._transport.get_write_buffer_size()
        if unread > self._write_limit:
            self._closing = True
            self._transport.abort()
        return unread

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`: the peer sends requests faster than it reads responses."""
        self._held_back = True
        if not self._closing and not self._choked:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading, unless the peer is still slow."""
        self._held_back = False
        if not self._closing and not self._choked:
            self._transport.resume_reading()

    def cut_off(self, text: str) -> None:
        """Close the connection because of an unfinished frame, and drop the frame."""
        self._core.forget()
        self._unfinished = 0
        if not self._closing:
            self._bad(ProtocolError(text))

    def close(self) -> None:
        """Send queued bytes, then close."""
        if not self._closing:
            self._closing = True
            self._transport.close()

    def close_idle(self) -> None:
        """Close a connection without traffic. If it is closing already, abort it: the peer does not read the queued
        bytes."""
        if self._closing:
            self._transport.abort()
        else:
            self.close()

    def abort(self) -> None:
        """Close immediately; queued bytes are lost."""
        self._closing = True
        self._transport.abort()

    def _bad(self, error: ProtocolError) -> None:
        before: list[Command] = getattr(error, "before", [])
        if before:
            self._owner.received(self._peer, before)
        self._closing = True
        self._owner.bad_frame(self._peer, error)
        self._transport.close()


class FirstBytes(Protocol):
    """Examines a connection's first bytes; see `transport.protocol_detector`, which imports this module."""

    def detector(self, connection: ServerConnection) -> Any:
        """Return the asyncio protocol that receives the first bytes."""


def accepting(
    owner: Owner,
    max_frame: int,
    write_high: int,
    write_limit: int,
    ingress: FirstBytes | None = None,
    frames: Unfinished | None = None,
) -> Callable[[], Any]:
    """Return the protocol factory for connections to a port of `owner` (`bolide.world.contract.BoundPort.serve`).

    Without an `ingress`, the first bytes must be a frame. `frames` limits the incomplete frames stored by all
    connections together. The protocol is duck-typed: a native class cannot inherit asyncio.Protocol.
    """

    def accepted() -> Any:
        connection = ServerConnection(owner, max_frame, write_high, write_limit, frames)
        return connection if ingress is None else ingress.detector(connection)

    return accepted
