"""A peer that does not read: it costs a bounded number of bytes, others are served, and nothing it asked is lost."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bolide.broker.core.channel import Channel
from bolide.node.broker import BrokerNode
from bolide.node.loop.outbox import AT_ONCE, Outbox, WaitingRequest
from bolide.remoting import codes
from bolide.remoting.codec import Outgoing, WireCodec
from bolide.remoting.command import Command, encode, make_request
from bolide.remoting.response_bytes import Buffer
from proof.kit.waiting import PATIENCE, until
from tests.node.answers import read_answers
from tests.node.brokers import broker, pull_request, send_request

BODY = 250_000
PULLS = 300
HIGH = 1 << 20


class NotingHost:
    """What the outbox asks of its host; `unread` is what the peer leaves."""

    def __init__(self) -> None:
        self.unread = 0
        self.calls: list[str] = []
        self.written: list[list[bytes]] = []

    def write(self, channel: Channel) -> int:
        self.written.append(channel.frames)
        channel.frames = []
        return self.unread

    def pause_reading(self, channel: Channel) -> None:
        self.calls.append("hold back")

    def resume_reading(self, channel: Channel) -> None:
        self.calls.append("let on")

    def another_turn(self) -> None:
        self.calls.append("turn")


class Pieces(WireCodec):
    """Encodes any message as these pieces."""

    def __init__(self, pieces: list[Buffer]) -> None:
        self.pieces = pieces

    def encode(self, message: Outgoing) -> list[Buffer]:
        return self.pieces


def send(outbox: Outbox, peer: Channel, *pieces: bytes) -> None:
    peer.codec = Pieces(list(pieces))
    outbox.send(peer, make_request(11, 1))


def waiting(opaque: int) -> WaitingRequest:
    return WaitingRequest(make_request(11, opaque), frozenset(), None, 0)


def test_requests_that_wait_for_their_turn_are_counted_by_code() -> None:
    outbox = Outbox(NotingHost(), 100)
    for number, (code, since) in enumerate(((11, 50), (11, 40), (11, -1), (310, 60))):
        request = WaitingRequest(make_request(code, number), frozenset(), None, 0, since)
        outbox.wait(Channel(number, b"", "peer"), request)
    assert outbox.waiting_for_turn(frozenset({11})) == (2, 40)
    assert outbox.waiting_for_turn(frozenset({11, 310})) == (3, 40)
    assert outbox.waiting_for_turn(frozenset({12})) == (0, 0)


def test_requests_wait_in_order_until_the_peer_has_read() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, 100)
    assert not outbox.full(peer)
    send(outbox, peer, bytes(101))
    assert outbox.full(peer)
    outbox.wait(peer, waiting(1))
    outbox.wait(peer, waiting(2))
    host.unread = 101
    outbox.write_all()
    assert (outbox.unread, outbox.take_ready(), outbox.next(peer)) == (101, [], None)
    outbox.caught_up(peer)
    assert (outbox.unread, outbox.take_ready()) == (0, [peer])
    assert outbox.full(peer)  # a new request waits after the earlier ones
    taken = [outbox.next(peer), outbox.next(peer), outbox.next(peer)]
    assert [one.command.opaque if one else None for one in taken] == [1, 2, None]
    assert not outbox.full(peer)
    assert host.calls == ["hold back", "turn", "let on"]


def test_what_the_kernel_took_at_once_makes_room_in_the_next_turn() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, 100)
    send(outbox, peer, b"head", bytes(60), bytes(60))
    outbox.wait(peer, waiting(1))
    outbox.write_all()
    assert outbox.take_ready() == [peer]
    assert host.calls == ["hold back", "turn"]
    assert [len(piece) for piece in host.written[0]] == [4, 60, 60]


def test_what_waits_to_be_written_counts_when_the_peer_has_caught_up() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, 100)
    host.unread = 90
    send(outbox, peer, bytes(90))
    outbox.write_all()
    send(outbox, peer, bytes(101))
    outbox.caught_up(peer)
    assert outbox.full(peer) and peer.queued == 101 and outbox.unread == 0
    host.unread = 0
    outbox.write_all()
    assert not outbox.full(peer) and peer.queued == 0


def test_a_large_answer_leaves_at_once_and_others_with_the_turn() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, HIGH)
    send(outbox, peer, b"first", bytes(AT_ONCE - 6))
    assert host.written == []
    send(outbox, peer, b"", b"!")
    assert [[len(piece) for piece in frames] for frames in host.written] == [[5, AT_ONCE - 6, 0, 1]]
    assert not outbox.full(peer)
    outbox.write_all()
    assert len(host.written) == 1, "nothing is left to be written"
    send(outbox, peer, b"second")
    outbox.write_all()
    assert host.written[1:] == [[b"second"]]


def test_what_left_at_once_and_was_not_read_holds_back_the_rest() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, HIGH)
    host.unread = HIGH + 1
    send(outbox, peer, b"", bytes(AT_ONCE))
    assert (outbox.unread, outbox.full(peer), len(host.written)) == (HIGH + 1, True, 1)
    outbox.write_all()
    assert (outbox.unread, outbox.full(peer)) == (HIGH + 1, True), "nothing was written, so nothing has changed"
    send(outbox, peer, b"", bytes(AT_ONCE - 1))
    assert len(host.written) == 1, "what is unread already does not count"
    outbox.caught_up(peer)
    assert (outbox.unread, outbox.full(peer)) == (0, False)


def test_what_is_left_over_has_another_turn_though_nothing_is_to_be_sent() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, 100)
    outbox.postpone(peer, waiting(1))
    outbox.write_all()
    assert host.calls == ["hold back", "turn"]


def test_a_peer_that_goes_takes_what_waited_with_it() -> None:
    host, peer = NotingHost(), Channel(1, b"", "peer")
    outbox = Outbox(host, 100)
    send(outbox, peer, bytes(101))
    outbox.wait(peer, waiting(1))
    host.unread = 101
    outbox.write_all()
    outbox.closed(peer)
    assert (outbox.unread, outbox.full(peer), outbox.next(peer)) == (0, False, None)


@asynccontextmanager
async def silent_peer(node: BrokerNode, asked: list[Command]) -> AsyncIterator[socket.socket]:
    """A peer that has sent these requests and reads nothing."""
    with socket.create_connection(("127.0.0.1", node.port)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        for opaque, command in enumerate(asked):
            command.opaque = opaque
        await asyncio.to_thread(sock.sendall, b"".join(map(encode, asked)))
        yield sock


@pytest.mark.parametrize("held", [False, True], ids=["asked-at-once", "woken-from-hold"])
async def test_a_peer_that_reads_nothing_costs_little_and_loses_nothing(tmp_path: Path, held: bool) -> None:
    async with broker(tmp_path, client_write_buffer_high=HIGH) as (node, client):
        outbox = node._executor.outbox
        assert (await client.request(send_request(body=bytes(BODY)), PATIENCE)).code == 0
        flags, wait = (6, 60_000) if held else (4, 0)
        asked = [pull_request(offset=int(held), sys_flag=flags, suspend=wait) for _ in range(PULLS)]
        tracemalloc.start()
        try:
            async with silent_peer(node, asked) as sock:
                if held:
                    await until(lambda: node._waiters.count == PULLS, "the pulls to be held")
                    assert (await client.request(send_request(body=bytes(BODY)), PATIENCE)).code == 0
                await until(lambda: outbox.unread > 0, "the peer to fall behind")
                for _ in range(20):  # others continue, and their effects do not reach the silent one
                    assert (await client.request(send_request("Other"), PATIENCE)).code == 0
                assert tracemalloc.get_traced_memory()[1] < 6 * HIGH
                assert outbox.unread <= 2 * HIGH + BODY
                answers = await asyncio.to_thread(read_answers, sock, PULLS)
        finally:
            tracemalloc.stop()
        assert [answer.opaque for answer in answers] == list(range(PULLS))
        assert {(answer.code, len(answer.body) > BODY) for answer in answers} == {(0, True)}
        await until(lambda: outbox.unread == 0, "nothing to be unread")


async def test_pulls_are_sent_away_while_all_peers_together_leave_too_much(tmp_path: Path) -> None:
    more = {"client_write_buffer_high": HIGH, "client_write_buffer_total": HIGH}
    async with broker(tmp_path, **more) as (node, client):
        outbox = node._executor.outbox
        assert (await client.request(send_request(body=bytes(BODY)), PATIENCE)).code == 0
        async with silent_peer(node, [pull_request() for _ in range(PULLS)]):
            await until(lambda: outbox.unread > HIGH, "the peer to fall behind")
            refused = await client.request(pull_request(), PATIENCE)
            assert refused.code == codes.FLOW_CONTROL
            assert str(refused.remark).startswith("[FLOW_CONTROL]peers have left ")
            assert (await client.request(send_request(), PATIENCE)).code == 0  # a send leaves little
        await until(lambda: outbox.unread == 0, "the peer to be gone")
        assert (await client.request(pull_request(), PATIENCE)).code == 0
