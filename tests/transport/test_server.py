"""The serving front of a connection: frames in, one write out, back-pressure, one line for a bad peer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from bolide.remoting.command import encode, make_request
from bolide.transport.server import ServerConnection, accepting
from bolide.transport.unfinished import Unfinished
from bolide.world.real import RealWorld
from proof.kit.waiting import PATIENCE
from tests.transport.noting import NotingOwner, NotingTransport

FRAME = encode(make_request(11, 1))


def connected(owner: NotingOwner) -> tuple[ServerConnection, NotingTransport]:
    connection = ServerConnection(owner, 1 << 20, 1000, 5000)
    transport = NotingTransport()
    connection.connection_made(transport)
    return connection, transport


def test_everything_whole_in_a_read_goes_to_the_owner_at_once() -> None:
    owner = NotingOwner()
    connection, transport = connected(owner)
    assert (connection.remote_ip, connection.remote_port, connection.local_port) == ("10.0.0.1", 5, 10911)
    connection.data_received(FRAME + FRAME + FRAME[:5])
    assert owner.reads == 1 and len(owner.commands) == 2
    connection.data_received(FRAME[5:])
    assert len(owner.commands) == 3
    connection.write([b"a", b"b"])
    assert transport.written == [b"ab"]


class Taker:
    """Serves the first `takes` frames of every read, and long frames unless `takes` is 0."""

    def __init__(self, takes: int) -> None:
        self.takes = takes
        self.seen: list[bytes] = []
        self.long: list[bytes] = []

    def take(self, peer: Any, data: bytes, long: tuple[bytes, bytes] | None) -> int:
        self.seen.append(data)
        if long is not None:
            self.long.append(b"".join(long))
            if not self.takes:
                return -1
        served = 0
        while served < self.takes * len(FRAME) and data.startswith(FRAME, served):
            served += len(FRAME)
        return served


def test_frames_that_are_served_as_they_are_become_no_commands() -> None:
    owner, taker, notes = NotingOwner(), Taker(2), Unfinished(1000, 10.0, lambda: 0.0)
    connection = ServerConnection(owner, 1 << 20, 100, 1000, notes)
    connection.connection_made(NotingTransport())
    connection.taker = taker
    connection.data_received(FRAME * 3 + FRAME[:5])
    assert len(owner.commands) == 1 and notes.size == 5
    connection.data_received(FRAME[5:7])
    assert taker.seen == [FRAME * 3 + FRAME[:5]], "not before a frame is whole"
    connection.data_received(FRAME[7:] + FRAME)
    assert taker.seen[1] == FRAME * 2 and len(owner.commands) == 1 and notes.size == 0


def test_a_long_frame_comes_before_those_that_are_served_as_they_are() -> None:
    owner, taker = NotingOwner(), Taker(0)
    connection = ServerConnection(owner, 1 << 20, 100, 1000)
    connection.connection_made(NotingTransport())
    connection.taker = taker
    long = encode(make_request(12, 1, None, bytes(100_000)))
    connection.data_received(long[:50_000])
    connection.data_received(long[50_000:] + FRAME)
    assert [command.code for command in owner.commands] == [12, 11]
    assert taker.seen == [long[:50_000], FRAME] and taker.long == [long]


def test_a_long_frame_that_is_served_as_it_is_becomes_no_command() -> None:
    owner, taker, notes = NotingOwner(), Taker(1), Unfinished(1_000_000, 10.0, lambda: 0.0)
    connection = ServerConnection(owner, 1 << 20, 100, 1000, notes)
    connection.connection_made(NotingTransport())
    connection.taker = taker
    long = encode(make_request(12, 1, None, bytes(100_000)))
    for after, codes in ((b"", []), (FRAME, []), (FRAME * 2, [11]), (FRAME[:5], [11])):
        connection.data_received(long[:50_000])
        connection.data_received(long[50_000:] + after)
        assert [command.code for command in owner.commands] == codes
        assert notes.size == len(after) % len(FRAME)
    connection.data_received(FRAME[5:])
    assert taker.long == [long] * 4 and len(owner.commands) == 1


def test_a_frame_that_begins_after_those_served_is_a_new_one() -> None:
    now = [0.0]
    notes = Unfinished(1000, 10.0, lambda: now[0])
    connection = ServerConnection(NotingOwner(), 1 << 20, 100, 1000, notes)
    connection.connection_made(NotingTransport())
    connection.taker = Taker(9)
    connection.data_received(FRAME[:8])
    for _ in range(5):
        now[0] += 9.0
        notes.close_late()
        assert not connection.closing
        connection.data_received(FRAME[8:] + FRAME[:8])


@pytest.mark.parametrize("bad", [b"\x7f\xff\xff\xff\0\0\0\0", b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x05\x09\0\0\0x"])
def test_a_bad_frame_closes_after_the_good_ones_before_it(bad: bytes) -> None:
    owner = NotingOwner()
    connection, transport = connected(owner)
    connection.data_received(FRAME + bad)
    assert len(owner.commands) == 1 and len(owner.bad) == 1 and transport.calls[-1] == "close"
    connection.data_received(FRAME)
    connection.write([b"late"])
    assert len(owner.commands) == 1 and transport.written == []
    connection.connection_lost(None)
    assert owner.gone == ["peer"]


def test_a_frame_cut_off_by_the_end_is_told() -> None:
    owner = NotingOwner()
    connection, _ = connected(owner)
    connection.data_received(FRAME[:9])
    assert connection.eof_received() is False
    assert len(owner.bad) == 1


def test_a_slow_reader_is_not_read_from_and_then_cut_off() -> None:
    owner = NotingOwner()
    connection, transport = connected(owner)
    assert transport.calls == ["high 1000"]
    connection.pause_writing()
    transport.unread = 5000
    assert connection.write([b"x"]) == 5000
    connection.resume_writing()
    assert transport.calls[1:] == ["pause", "resume"]
    assert owner.caught_up_peers == ["peer"]
    assert connection.write([b"x"]) == 0
    connection.pause_writing()
    transport.unread = 5001
    connection.write([b"x"])
    assert transport.calls[-1] == "abort"
    connection.resume_writing()
    assert transport.calls[-1] == "abort"


def test_reading_resumes_only_after_both_pauses_end() -> None:
    connection, transport = connected(NotingOwner())
    connection.pause_reading()
    connection.pause_writing()
    connection.resume_writing()
    assert transport.calls[1:] == ["pause", "pause"]
    connection.pause_writing()
    connection.resume_reading()
    assert transport.calls[1:] == ["pause"] * 3
    connection.resume_writing()
    assert transport.calls[-1] == "resume"


def test_bodies_leave_as_the_very_objects_that_were_read() -> None:
    connection, transport = connected(NotingOwner())
    body = memoryview(b"the body of a message")
    connection.write([b"head", body], True)
    assert transport.lines[0][1] is body


def test_a_connection_may_be_refused() -> None:
    owner = NotingOwner(refuses=True)
    connection, transport = connected(owner)
    assert transport.calls[-1] == "abort"
    connection.data_received(FRAME)
    connection.connection_lost(None)
    assert owner.commands == [] and owner.gone == []


class AcceptingOwner(NotingOwner):
    """Stores the accepted connection."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted: asyncio.Future[ServerConnection] = asyncio.get_running_loop().create_future()
        self.lost = asyncio.Event()

    def connected(self, connection: ServerConnection) -> Any:
        self.accepted.set_result(connection)
        return "peer"

    def closed(self, peer: Any) -> None:
        self.lost.set()


async def test_an_idle_connection_is_closed_although_its_peer_does_not_read() -> None:
    owner = AcceptingOwner()
    port = RealWorld().bind("127.0.0.1", 0)
    await port.serve(accepting(owner, 1 << 20, 1000, 1 << 30))
    _, writer = await asyncio.open_connection("127.0.0.1", port.port)  # its reader stops after 128 KiB
    connection = await owner.accepted
    assert connection.write([bytes(64 << 20)]) > 0
    connection.close_idle()
    connection.close()
    assert connection.closing and not owner.lost.is_set()
    connection.close_idle()
    await asyncio.wait_for(owner.lost.wait(), PATIENCE)
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    port.close()


async def test_a_free_port_is_found_and_told() -> None:
    owner = NotingOwner()
    port = RealWorld().bind("127.0.0.1", 0)
    await port.serve(accepting(owner, 1 << 20, 1000, 5000))
    reader, writer = await asyncio.open_connection("127.0.0.1", port.port)
    writer.write(b"\xff" * 8)
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    port.close()
    assert len(owner.bad) == 1
