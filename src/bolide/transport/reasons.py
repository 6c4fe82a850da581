"""Texts for the causes of connection failures. They are never empty, although TLS to a port without TLS fails with an
error without text."""

from __future__ import annotations

import os
import socket
import ssl

from bolide.errors import ConnectionLost


def cannot_connect(address: str, error: OSError, encrypted: bool = False) -> ConnectionLost:
    """Return the error for a failed connection attempt; `encrypted` is whether TLS was requested."""
    if encrypted and isinstance(error, ssl.SSLError | ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return tls_failed(address, error)
    return ConnectionLost(f"cannot connect to {address}: {reason_of(error)}")


def tls_failed(address: str, error: OSError) -> ConnectionLost:
    """Return the error for a failed TLS handshake."""
    trusted = isinstance(error, ssl.SSLCertVerificationError)
    hint = "" if trusted else ": is TLS expected there?"
    return ConnectionLost(f"TLS with {address} failed: {reason_of(error)}{hint}")


def no_connection_in_time(address: str, timeout: float, encrypted: bool = False) -> ConnectionLost:
    """Return the error for a connection that was not established within `timeout` seconds."""
    hint = ", or did not finish the TLS handshake: is TLS expected there?" if encrypted else ""
    return ConnectionLost(f"{address} did not accept a connection within {timeout:g} s{hint}")


def lost(address: str, reason: str, *, answered: bool, encrypted: bool) -> ConnectionLost:
    """Return the error for a lost connection. `answered` is whether the peer ever sent a byte. A port that requires TLS
    closes an unencrypted connection silently, or with an alert (record type 21)."""
    plain = " before any answer: does the port require TLS, which this client does not use?"
    hint = "" if answered or encrypted else plain
    return ConnectionLost(f"the connection to {address} was {reason}{hint}")


def is_tls_alert(data: bytes) -> bool:
    """Return whether the first bytes of a peer are a TLS alert (RFC 8446 5.1): type 21, major version 3."""
    return data[:2] == b"\x15\x03"


def reason_of(error: OSError) -> str:
    """Return the cause, without the address or the location in OpenSSL's sources."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    reason: str | None = getattr(error, "reason", None) if isinstance(error, ssl.SSLError) else None
    if reason:
        return reason.replace("_", " ").lower()
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError | BrokenPipeError):
        return "the peer closed the connection"
    if error.errno and error.errno > 0 and not isinstance(error, socket.gaierror):
        text = os.strerror(error.errno)
        return text[0].lower() + text[1:]
    return error.strerror or str(error) or type(error).__name__
