"""The connections of the console's server: a new connection closes the oldest one with an unfinished request or TLS
handshake.
"""

from __future__ import annotations

import asyncio
import ssl
from itertools import count
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bolide.errors import ProtocolError
from bolide.monitor.crowd import make_room
from bolide.transport.tls import TlsLayer
from bolide.transport.tls_contexts import RenewedContext

MOST_OPEN: Final = 150
"""Maximum number of connections: each further one closes the oldest that waits for its peer. It must be less than the
number at which the server responds with 503."""
_NUMBERS: Final = count()


class YieldingConnection(H11Protocol):
    """A connection that may be closed to make room: while its request is incomplete, between two requests, and while
    its peer does not read the response.

    It has no idle timeout, because a user may take any time between two pages.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn narrows it, too
        """Count this connection, and close the oldest that waits for its peer if there are too many."""
        super().connection_made(transport)
        self.number = next(_NUMBERS)
        make_room((each for each in self.connections if isinstance(each, YieldingConnection)), MOST_OPEN)

    @property
    def waits(self) -> bool:
        """Whether the connection waits for more of a request, for the next request, or for room in the write buffer."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY) or self.flow.write_paused

    @property
    def closing(self) -> bool:
        """Whether the connection is closing. `connections` still contains it until the next turn of the loop."""
        return bool(self.transport.is_closing())

    def abort(self) -> None:
        """Close the connection immediately. An orderly close would wait for a peer that does not read."""
        self.transport.abort()


class SecuredConnection(YieldingConnection):
    """A connection with TLS, which may also be closed to make room during its handshake.

    uvicorn would create a connection only after the handshake, so unfinished handshakes would not count.
    """

    def __init__(self, tls: RenewedContext, **server: Any) -> None:
        """Takes the arguments of uvicorn as `server`."""
        super().__init__(**server)
        self._tls = tls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as above
        """Expect a handshake."""
        context = self._tls.context
        self._layer = TlsLayer(transport, self, context)
        transport.set_protocol(self._layer)  # type: ignore[arg-type] # it has the methods
        super().connection_made(_SecuredTransport(transport, self._layer, context))

    def keeps(self, size: int) -> None:
        """Called with the number of bytes of an incomplete record or handshake, which OpenSSL limits."""

    def refuse(self, error: ProtocolError) -> None:
        """Called if the peer violates TLS. Close after sending the alert."""
        self.transport.close()


class _SecuredTransport(asyncio.Transport):
    """The transport that uvicorn uses: `below` is the socket's, which `layer` encrypts."""

    def __init__(self, below: asyncio.Transport, layer: TlsLayer, context: ssl.SSLContext) -> None:
        super().__init__()
        self._below = below
        self._layer = layer
        self._context = context

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._context if name == "sslcontext" else self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._layer.write(bytes(data))

    def close(self) -> None:
        self._layer.close()

    def abort(self) -> None:
        self._layer.abort()

    def pause_reading(self) -> None:
        self._layer.pause_reading()

    def resume_reading(self) -> None:
        self._layer.resume_reading()
