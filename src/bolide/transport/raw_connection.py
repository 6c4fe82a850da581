"""A connection that carries bytes without frames, for both sides of log replication."""

from __future__ import annotations

from typing import Any, Protocol, final


class RawOwner(Protocol):
    """The owner of raw connections. All methods are called on the loop."""

    def connected(self, connection: RawConnection) -> None:
        """Called for a new connection, which may be aborted immediately."""

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Called with bytes from the peer."""

    def writable(self, connection: RawConnection) -> None:
        """Called after the peer has read most of the unsent bytes."""

    def closed(self, connection: RawConnection) -> None:
        """Called after either side closed the connection."""


@final
class RawConnection:
    """One connection. It has the methods of asyncio.Protocol."""

    def __init__(self, owner: RawOwner, write_high: int) -> None:
        self._owner = owner
        self._transport: Any = None
        self._write_high = write_high
        self._closing = False
        self.remote = ""
        """`ip:port` of the peer."""
        self.paused = False
        """Whether more than `write_high` bytes are unsent: the owner should not write more."""

    def connection_made(self, transport: Any) -> None:
        """Handle a new connection."""
        self._transport = transport
        transport.set_write_buffer_limits(high=self._write_high)
        self.remote = peer_of(transport)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        """Called with bytes from the peer."""
        if not self._closing:
            self._owner.received(self, data)

    def eof_received(self) -> bool:
        """Handle an end of input: this protocol does not use half-closed connections."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._closing = True
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """Called when the peer reads too slowly."""
        self.paused = True

    def resume_writing(self) -> None:
        """Resume after the peer has read enough."""
        self.paused = False
        if not self._closing:
            self._owner.writable(self)

    @property
    def closing(self) -> bool:
        """Whether the connection no longer accepts or sends bytes."""
        return self._closing

    def write(self, data: bytes) -> None:
        """Send these bytes."""
        if not self._closing:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`; bytes already received may still arrive."""
        if not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        if not self._closing:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close immediately; queued bytes are lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()


def peer_of(transport: Any) -> str:
    """Return `ip:port` of the peer, without the zone of a link-local address."""
    peer = transport.get_extra_info("peername") or ("0.0.0.0", 0)
    return f"{str(peer[0]).partition('%')[0]}:{int(peer[1])}"
