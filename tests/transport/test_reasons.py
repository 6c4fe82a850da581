"""Reasons of failed connections: never empty, and with the question that helps."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from bolide.transport.reasons import cannot_connect, is_tls_alert, no_connection_in_time, reason_of


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionResetError(), "the peer closed the connection"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "no answer in time"),
        (OSError(), "OSError"),
    ],
)
def test_no_reason_is_empty(error: OSError, said: str) -> None:
    assert reason_of(error) == said


def test_a_failed_handshake_asks_whether_tls_is_expected() -> None:
    for error in (ConnectionResetError(), ssl.SSLEOFError(8, "EOF occurred"), ssl.SSLError(1, "wrong version number")):
        assert str(cannot_connect("h:1", error, encrypted=True)).startswith("TLS with h:1 failed: ")
        assert str(cannot_connect("h:1", error, encrypted=True)).endswith(": is TLS expected there?")
    refused = cannot_connect("h:1", ConnectionRefusedError(errno.ECONNREFUSED, ""), encrypted=True)
    assert str(refused) == "cannot connect to h:1: connection refused"
    assert "is TLS expected" in str(no_connection_in_time("h:1", 3.0, encrypted=True))
    assert str(no_connection_in_time("h:1", 3.0)) == "h:1 did not accept a connection within 3 s"


def test_tls_alert_is_recognised() -> None:
    assert is_tls_alert(bytes.fromhex("15030300020246"))
    assert not is_tls_alert(b"\x00\x00\x00\x15")
