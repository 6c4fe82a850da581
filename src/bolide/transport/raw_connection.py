"""A connection that carries bytes without frames, on either side: the replication of logs."""

from __future__ import annotations

from typing import Any, Protocol, final


class RawOwner(Protocol):
    """Who uses such connections. All methods are called on the loop."""

    def connected(self, connection: RawConnection) -> None:
        """The connection is there. It may be aborted at once."""

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Bytes of the peer."""

    def writable(self, connection: RawConnection) -> None:
        """The peer has read most of what it had left unread."""

    def closed(self, connection: RawConnection) -> None:
        """The connection was closed, by either side."""


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
        """True while the peer has left `write_high` bytes unread: write no more."""

    def connection_made(self, transport: Any) -> None:
        """The connection is there."""
        self._transport = transport
        transport.set_write_buffer_limits(high=self._write_high)
        self.remote = peer_of(transport)
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes of the peer."""
        if not self._closing:
            self._owner.received(self, data)

    def eof_received(self) -> bool:
        """The peer writes no more: this protocol has no use for half a connection."""
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        self._closing = True
        self._owner.closed(self)

    def pause_writing(self) -> None:
        """The peer reads too slowly."""
        self.paused = True

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.paused = False
        if not self._closing:
            self._owner.writable(self)

    @property
    def closing(self) -> bool:
        """True once nothing more is taken or written."""
        return self._closing

    def write(self, data: bytes) -> None:
        """Send these bytes."""
        if not self._closing:
            self._transport.write(data)

    def pause_reading(self) -> None:
        """Take nothing more from the peer until `resume_reading`; what was read already may still arrive."""
        if not self._closing:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take bytes from the peer again."""
        if not self._closing:
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once; what is queued is lost."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()


def peer_of(transport: Any) -> str:
    """Return `ip:port` of the peer, without the zone of a link-local address."""
    peer = transport.get_extra_info("peername") or ("0.0.0.0", 0)
    return f"{str(peer[0]).partition('%')[0]}:{int(peer[1])}"
