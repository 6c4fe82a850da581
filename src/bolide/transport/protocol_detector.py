"""Detects the first bytes of a connection: a PROXY preamble, TLS, or frames, all on the same port.

The counterpart of RocketMQ's HandshakeHandler and TlsModeHandler. A frame starts with the high byte of its length, 0 or
1, and TLS with 0x16, so one byte is enough. Afterwards the connection handles the socket directly; plain frames do not
pass through this module.
"""

from __future__ import annotations

import ssl
from functools import partial
from typing import Any, Final, Protocol

from bolide.errors import ConfigError, ProtocolError
from bolide.transport.proxy_preamble import may_begin, read_preamble
from bolide.transport.server import ServerConnection
from bolide.transport.tls import TlsLayer
from bolide.transport.tls_contexts import RenewedContext, current_context, server_context
from bolide.transport.trusted_proxies import TrustedProxies

HANDSHAKE: Final = 0x16
"""Content type of a TLS record that starts a handshake."""


class TlsOptions(Protocol):
    """The TLS fields of a daemon's options."""

    @property
    def tls_mode(self) -> str: ...
    @property
    def tls_cert_path(self) -> str: ...
    @property
    def tls_key_path(self) -> str: ...
    @property
    def tls_key_password(self) -> str: ...
    @property
    def tls_trust_cert_path(self) -> str: ...
    @property
    def tls_need_client_auth(self) -> str: ...


class Ingress:
    """The rules for new connections of one daemon: `mode` "disabled", "permissive" or "enforcing", the certificate, and
    the load balancers that may send the address of their client."""

    def __init__(
        self, mode: str = "permissive", tls: RenewedContext | None = None, proxies: TrustedProxies | None = None
    ) -> None:
        self.mode = mode
        self.tls = tls
        self.proxies = proxies if proxies is not None else TrustedProxies()

    @classmethod
    def of(cls, options: TlsOptions, trusted_proxies: str) -> Ingress:
        """Create the ingress for these options. Raises `ConfigError` if they conflict."""
        proxies = TrustedProxies(trusted_proxies)
        if options.tls_mode == "disabled":
            return cls("disabled", None, proxies)
        if not options.tls_cert_path:
            if options.tls_mode == "enforcing":
                raise ConfigError("tlsMode = enforcing needs a certificate: give tlsCertPath and tlsKeyPath")
            return cls(options.tls_mode, None, proxies)
        paths = (options.tls_cert_path, options.tls_key_path, options.tls_trust_cert_path)
        make = partial(
            server_context,
            options.tls_cert_path,
            options.tls_key_path,
            options.tls_key_password,
            options.tls_trust_cert_path,
            options.tls_need_client_auth,
        )
        return cls(options.tls_mode, RenewedContext(make, paths), proxies)

    @property
    def context(self) -> ssl.SSLContext | None:
        """SSL context for the next connection, or None if TLS is disabled."""
        return current_context(self.tls)

    def detector(self, connection: ServerConnection) -> ProtocolDetector:
        """Return the receiver of the first bytes of a new connection."""
        return ProtocolDetector(self, connection)


class ProtocolDetector:
    """The asyncio protocol of a connection until its first bytes are known. The limits apply to the connection from the
    start."""

    def __init__(self, ingress: Ingress, connection: ServerConnection) -> None:
        self._ingress = ingress
        self._connection = connection
        self._transport: Any = None
        self._seen = b""
        self._proxied = False

    def connection_made(self, transport: Any) -> None:
        """Handle a new connection."""
        self._transport = transport
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Examine the first bytes, and hand over the connection as soon as their kind is known."""
        connection = self._connection
        if connection.closing:
            return
        seen = self._seen = self._seen + data
        if not self._proxied and may_begin(seen):
            try:
                preamble = read_preamble(seen)
            except ProtocolError as error:
                connection.refuse(error)
                return
            if preamble is None:
                connection.keeps(len(seen))
                return  # limited: a preamble has its own maximum size
            if not self._ingress.proxies.trusts(connection.remote_ip):
                connection.refuse(ProtocolError("it sent a PROXY header, and trustedProxies does not list its address"))
                return
            self._proxied = True
            if preamble.ip:
                connection.set_client_address(preamble.ip, preamble.port)
            seen = self._seen = seen[preamble.size :]
        connection.keeps(0)
        if seen:
            self._seen = b""
            self._let_in(seen)

    def eof_received(self) -> bool:
        """Handle an end of input before the first bytes are complete."""
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        """Called when the peer reads too slowly."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Resume after the peer has read enough."""
        self._connection.resume_writing()

    def _let_in(self, data: bytes) -> None:
        connection, ingress = self._connection, self._ingress
        if data[0] != HANDSHAKE:
            if ingress.mode == "enforcing":
                connection.refuse(ProtocolError("the peer does not speak TLS, which tlsMode = enforcing demands"))
                return
            self._transport.set_protocol(connection)
            connection.data_received(data)
            return
        context = ingress.context
        if context is None:
            why = "tlsMode is disabled" if ingress.mode == "disabled" else "there is no certificate (tlsCertPath)"
            connection.refuse(ProtocolError(f"the peer wants TLS, and {why}"))
            return
        layer = TlsLayer(self._transport, connection, context)
        connection.replace_transport(layer)
        self._transport.set_protocol(layer)
        layer.data_received(data)
