"""Frames that peers begin and do not finish: limited in bytes over all connections, and in time."""

from __future__ import annotations

from bolide.remoting.command import encode, make_request
from bolide.transport.server import ServerConnection
from bolide.transport.unfinished import Unfinished
from tests.transport.test_server import NotingOwner, NotingTransport

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


def test_what_a_connection_had_sent_goes_with_it() -> None:
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
    assert peers.reasons() == ["a frame did not arrive whole within 30 s: maxFrameSeconds"]
    assert (closed.calls[-1], stays.calls[-1]) == ("close", "high 1000")
    assert peers.frames.size == PIECE
