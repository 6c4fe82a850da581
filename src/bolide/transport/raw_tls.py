"""TLS of accepted connections without frames: the owner receives a connection when its handshake is complete."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from bolide.errors import ProtocolError
from bolide.transport.raw_connection import RawConnection, peer_of
from bolide.transport.tls import TlsLayer
from bolide.transport.tls_contexts import RenewedContext

HANDSHAKE_S: Final = 10.0
MOST_HANDSHAKE: Final = 256 * 1024
"""Maximum size of a handshake in bytes; certificate chains are long."""
MOST_SHAKING: Final = 64
"""Maximum number of concurrent handshakes. A new connection closes the oldest, so idle connections cannot block a
slave."""


class RawTls:
    """One port. `refused(peer, why)` is called for connections whose handshake fails."""

    def __init__(
        self, tls: RenewedContext, made: Callable[[], RawConnection], refused: Callable[[str, str], None]
    ) -> None:
        self.tls = tls
        self.made = made
        self.refused = refused
        self.shaking: dict[Shaking, None] = {}
        """Connections with an incomplete handshake."""

    def accepted(self) -> Shaking:
        """Return the protocol for a new connection."""
        return Shaking(self)

    def stop(self) -> None:
        """Close connections with an incomplete handshake."""
        for one in list(self.shaking):
            one.abort()


class Shaking:
    """A layer between TLS and the connection, for which it is the transport. It has the methods of `ServerConnection`
    for `TlsLayer`, and of asyncio.Protocol for the loop."""

    def __init__(self, port: RawTls) -> None:
        self._port = port
        self._above: RawConnection | None = None
        self._layer: Any = None
        self._below: Any = None
        self._timer: asyncio.TimerHandle | None = None

    # ---- called by the loop

    def connection_made(self, transport: Any) -> None:
        """Handle a new connection."""
        self._below = transport
        if len(self._port.shaking) >= MOST_SHAKING:
            next(iter(self._port.shaking)).refuse(ProtocolError(f"{MOST_SHAKING} newer connections shake hands"))
        self._layer = TlsLayer(transport, self, self._port.tls.context)
        self._port.shaking[self] = None
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self._late)
        transport.set_protocol(self._layer)

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._shaken()
        if self._above is not None:
            self._above.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Called with decrypted bytes from the peer."""
        self._begin()
        if self._above is not None:
            self._above.data_received(data)

    def eof_received(self) -> bool:
        """Handle an end of input."""
        self.abort()
        return False

    def pause_writing(self) -> None:
        """Called when the peer reads too slowly."""
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        """Resume after the peer has read enough."""
        if self._above is not None:
            self._above.resume_writing()

    # ---- called by the layer

    def keeps(self, size: int) -> None:
        """Record the number of bytes of an incomplete record or handshake."""
        if self._layer.open:
            self._begin()
        elif size > MOST_HANDSHAKE:
            self.refuse(ProtocolError("its TLS handshake is too long"))

    def refuse(self, error: ProtocolError) -> None:
        """Close because the peer violated the protocol."""
        if self._above is None:
            self._port.refused(peer_of(self._below), str(error))
        self.abort()

    # ---- called by the connection above

    def write(self, data: bytes) -> None:
        """Encrypt these bytes and send them."""
        self._layer.write(data)

    def abort(self) -> None:
        """Close the connection without waiting for the peer."""
        self._shaken()
        self._below.close()  # the last bytes of the layer, such as an alert, may still be sent

    def pause_reading(self) -> None:
        """Stop reading."""
        self._layer.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading."""
        self._layer.resume_reading()

    def set_write_buffer_limits(self, high: int) -> None:
        """Set the high-water mark, in encrypted bytes."""
        self._layer.set_write_buffer_limits(high)

    def get_extra_info(self, name: str) -> Any:
        """Return information about the socket."""
        return self._below.get_extra_info(name)

    # ---- inside

    def _begin(self) -> None:
        if self._above is None and self in self._port.shaking:
            self._shaken()
            self._above = self._port.made()
            self._above.connection_made(self)

    def _shaken(self) -> None:
        self._port.shaking.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self.refuse(ProtocolError(f"its TLS handshake took longer than {HANDSHAKE_S:.0f} s"))
