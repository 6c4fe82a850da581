"""Frames that peers begin and do not finish: limited in bytes over all connections, and in time."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from bolide.remoting.command import encode, make_request
from bolide.transport.protocol_detector import Ingress, ProtocolDetector
from bolide.transport.server import ServerConnection
from bolide.transport.trusted_proxies import TrustedProxies
from bolide.transport.unfinished import Unfinished
from tests.transport.certificates import Certificate, have_openssl
from tests.transport.entrances import entrance_of, trusting
from tests.transport.noting import NotingOwner, NotingTransport

FRAME = encode(make_request(11, 1, body=bytes(10_000)))
PIECE = 1_000


class Peers:
    """Connections that share a limit, and a clock in the hand."""

    def __init__(self, limit: int = 4 * PIECE) -> None:
        self.now = 100.0
        self.frames = Unfinished(limit, 30, lambda: self.now)
        self.owner = NotingOwner()

    def peer(self) -> tuple[ServerConnection, NotingTransport]:
        connection = ServerConnection(self.owner, 1 << 20, 1000, 5000, self.frames)
        transport = NotingTransport()
        connection.connection_made(transport)
        return connection, transport

    def reasons(self) -> list[str]:
        return [str(error) for error in self.owner.bad]


def test_the_frame_that_began_first_goes_when_all_are_too_much() -> None:
    peers = Peers()
    (first, gone), (second, stays), (third, also) = peers.peer(), peers.peer(), peers.peer()
    second.data_received(FRAME[:PIECE])
    second.data_received(FRAME[PIECE:] + FRAME[:PIECE])  # another frame by now
    first.data_received(FRAME[:PIECE])
    peers.now += 1
    second.data_received(FRAME[PIECE:] + FRAME[:PIECE])
    third.data_received(FRAME[: 2 * PIECE])
    assert peers.frames.size == 4 * PIECE and peers.owner.bad == []
    third.data_received(FRAME[2 * PIECE : 2 * PIECE + 1])
    assert peers.reasons() == ["peers have sent 4001 bytes of unfinished frames: maxUnfinishedBytes allows 4000"]
    assert [transport.calls[-1:] for transport in (gone, stays, also)] == [["close"], ["high 1000"], ["high 1000"]]
    assert (peers.frames.size, first._core.buffered_bytes) == (3 * PIECE + 1, 0)
    third.data_received(FRAME[2 * PIECE + 1 :])
    assert (peers.frames.size, len(peers.owner.commands)) == (PIECE, 3)


def test_a_peer_alone_may_not_keep_more_than_all() -> None:
    peers = Peers()
    alone, transport = peers.peer()
    alone.data_received(FRAME[: 4 * PIECE + 1])
    assert (transport.calls[-1], peers.frames.size) == ("close", 0)
    alone.data_received(FRAME)
    assert peers.owner.commands == []


def test_closed_connection_drops_its_unfinished_frame() -> None:
    peers = Peers()
    connection, _ = peers.peer()
    connection.data_received(FRAME[:PIECE])
    connection.connection_lost(None)
    assert peers.frames.size == 0
    peers.now += 60
    peers.frames.close_late()
    assert peers.owner.bad == []


def test_a_frame_that_takes_too_long_closes_its_connection() -> None:
    peers = Peers()
    (slow, closed), (busy, stays) = peers.peer(), peers.peer()
    for at in range(3):
        slow.data_received(FRAME[at : at + 1])
        busy.data_received(FRAME[:PIECE] if at == 0 else FRAME[PIECE:] + FRAME[:PIECE])
        peers.now += 10
    peers.frames.close_late()
    assert peers.reasons() == ["a frame or a handshake did not arrive whole within 30 s: maxFrameSeconds"]
    assert (closed.calls[-1], stays.calls[-1]) == ("close", "high 1000")
    assert peers.frames.size == PIECE


class Secret:
    """A peer that speaks TLS through an ingress, in pieces of any size."""

    def __init__(self, peers: Peers, ingress: Ingress, context: ssl.SSLContext) -> None:
        self.connection = ServerConnection(peers.owner, 1 << 20, 1000, 5000, peers.frames)
        self.transport = KeptTransport(ProtocolDetector(ingress, self.connection))
        self.transport.protocol.connection_made(self.transport)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def hello(self) -> bytes:
        """The next bytes of the handshake; b"" when it is done."""
        self._incoming.write(b"".join(self.transport.written))
        self.transport.written.clear()
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return self._outgoing.read()

    def shake_hands(self) -> None:
        while data := self.hello():
            self.give(data)

    def encrypted(self, plain: bytes) -> bytes:
        self._tls.write(plain)
        return self._outgoing.read()

    def give(self, data: bytes) -> None:
        self.transport.protocol.data_received(data)


class KeptTransport(NotingTransport):
    """Knows its protocol, as the loop's does."""

    def __init__(self, protocol: Any) -> None:
        super().__init__()
        self.protocol = protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol


@pytest.fixture
def secret(tmp_path: Path) -> tuple[Peers, Secret]:
    if not have_openssl():
        pytest.skip("certificates are made with openssl")
    certificate = Certificate(tmp_path)
    peers = Peers(limit=2 * len(FRAME))
    return peers, Secret(peers, entrance_of(certificate), trusting(certificate))


def test_a_handshake_counts_until_it_is_done(secret: tuple[Peers, Secret]) -> None:
    peers, peer = secret
    hello = peer.hello()
    peer.give(hello[:100])
    peer.give(hello[100:200])
    assert peers.frames.size == 200
    peer.give(hello[200:])
    assert peers.frames.size == len(hello)
    peer.shake_hands()
    assert peers.frames.size == 0
    peer.give(peer.encrypted(FRAME))
    assert (peers.frames.size, len(peers.owner.commands)) == (0, 1)


def test_a_handshake_that_takes_too_long_closes_its_connection(secret: tuple[Peers, Secret]) -> None:
    peers, peer = secret
    hello = peer.hello()
    for at in range(3):
        peer.give(hello[at : at + 1])
        peers.now += 10
    peers.frames.close_late()
    assert peers.reasons() == ["a frame or a handshake did not arrive whole within 30 s: maxFrameSeconds"]
    assert peer.transport.calls[-1] == "close" and peers.frames.size == 0


def test_a_record_counts_until_it_is_whole(secret: tuple[Peers, Secret]) -> None:
    peers, peer = secret
    peer.shake_hands()
    data = peer.encrypted(FRAME[:PIECE]) + peer.encrypted(FRAME[PIECE:])
    for at in range(len(data) - 1):
        peer.give(data[at : at + 1])
        assert peers.frames.size > at - 100  # what encryption adds to a record is gone once it is whole
    peer.give(data[-1:])
    assert (peers.frames.size, len(peers.owner.commands)) == (0, 1)
    record = peer.encrypted(FRAME)
    peer.give(record[:3])
    assert peers.frames.size == 3
    peer.give(record[3:])
    assert (peers.frames.size, len(peers.owner.commands)) == (0, 2)
    both = peer.encrypted(FRAME[:PIECE]), peer.encrypted(FRAME[PIECE:])
    peer.give(both[0] + both[1][:500])
    assert peers.frames.size == PIECE + 500
    peers.now += 30
    peers.frames.close_late()
    assert len(peers.owner.bad) == 1


def test_a_preamble_counts_until_it_is_whole() -> None:
    peers = Peers()
    connection = ServerConnection(peers.owner, 1 << 20, 1000, 5000, peers.frames)
    transport = KeptTransport(ProtocolDetector(Ingress(proxies=TrustedProxies("0.0.0.0/0")), connection))
    transport.protocol.connection_made(transport)
    transport.protocol.data_received(b"PROXY UNKNOWN 1.2.3")
    assert peers.frames.size == 19
    transport.protocol.data_received(b".4 5.6.7.8 1 2\r\n")
    assert peers.frames.size == 0
    transport.protocol.data_received(FRAME)
    assert len(peers.owner.commands) == 1
