"""Framing: the same commands whatever the pieces, limits checked before they cost anything."""

from __future__ import annotations

import struct
import time
import tracemalloc

import pytest

from bolide.remoting import codes
from bolide.remoting.command import encode, make_request
from bolide.remoting.connection import MAX_FRAME, SMALL, FramedConnection, begins_whole
from bolide.remoting.errors import FrameError
from tests.remoting.vectors import frames


def seen(connection: FramedConnection, pieces: list[bytes]) -> list[bytes]:
    return [encode(command) for piece in pieces for command in connection.receive(piece)]


@pytest.mark.parametrize("frame", [frame for _, frame in frames()])
def test_whole_and_byte_by_byte(frame: bytes) -> None:
    expected = seen(FramedConnection(), [frame])
    assert len(expected) == 1
    connection = FramedConnection()
    assert seen(connection, [bytes([byte]) for byte in frame]) == expected
    assert connection.buffered_bytes == 0
    connection.receive_eof()


def test_two_frames_in_every_split() -> None:
    first = encode(make_request(105, 1, {"topic": "T"}, b"one"))
    second = encode(make_request(310, 2, {"a": "b"}, b"", serialize_type=codes.BINARY_TYPE))
    both = first + second
    for cut in range(len(both) + 1):
        for other in (cut, min(cut + 3, len(both)), len(both)):
            assert seen(FramedConnection(), [both[:cut], both[cut:other], both[other:]]) == [first, second]


def test_first_frame_is_whole_with_its_last_byte() -> None:
    frame = encode(make_request(105, 1, {"topic": "T"}, b"one"))
    both = frame + frame
    assert [size for size in range(len(both)) if begins_whole(both[:size])] == list(range(len(frame), len(both)))


def test_a_long_body_in_small_pieces_is_joined_once() -> None:
    body = bytes(range(256)) * 4096
    frame = encode(make_request(10, 1, None, body))
    connection = FramedConnection()
    commands = []
    for at in range(0, len(frame), 1000):
        commands += connection.receive(frame[at : at + 1000])
        assert connection.buffered_bytes < len(frame)
    assert [command.body for command in commands] == [body]


@pytest.mark.parametrize("kind", [codes.JSON_TYPE, codes.BINARY_TYPE])
def test_a_long_frame_in_any_pieces_and_what_follows_it(kind: int) -> None:
    small = encode(make_request(11, 1, {"a": "b"}))
    long = encode(make_request(10, 2, {"x": "y" * 300}, bytes(range(256)) * 300, serialize_type=kind))
    stream = small + long + long + small
    expected = [small, long, long, small]
    second = len(small) + len(long)
    for first in (1, 7, len(small), len(small) + 4, len(small) + 9, len(small) + 200, len(small) + 5000):
        for last in (second - 5, second, second + 3, second + 8, second + 50, len(stream) - 1):
            connection = FramedConnection()
            assert seen(connection, [stream[:first], stream[first:last], stream[last:]]) == expected
            assert connection.buffered_bytes == 0
    pieces = [stream[at : at + 4097] for at in range(0, len(stream), 4097)]
    assert seen(FramedConnection(), pieces) == expected


def test_a_long_header_in_many_pieces_is_joined_once() -> None:
    request = make_request(10, 1, serialize_type=codes.BINARY_TYPE)
    request.remark = "x" * (15 << 20)
    frame = encode(request)
    pieces = [frame[at : at + SMALL] for at in range(0, len(frame), SMALL)]
    connection = FramedConnection()
    began = time.process_time()
    assert [len(command.remark or "") for piece in pieces for command in connection.receive(piece)] == [15 << 20]
    assert time.process_time() - began < 1.0  # 0.1 s; a header that is joined again with each piece takes 4 s


def test_a_long_frame_whose_header_cannot_be_read_ends_the_connection() -> None:
    good = encode(make_request(11, 1))
    connection = FramedConnection()
    assert len(connection.receive(good + head(80_000, 4) + b"{..}" + bytes(5))) == 1
    for _ in range(2):
        with pytest.raises(FrameError, match="header"):
            connection.receive(bytes(80_000))
    assert connection.buffered_bytes == 0


def head(length: int, header: int = 0, kind: int = 0) -> bytes:
    return struct.pack(">iI", length, kind << 24 | header)


@pytest.mark.parametrize(
    "data",
    [
        head(-1),
        head(-(2**31)),
        head(0),
        head(3),
        head(MAX_FRAME - 3),
        head(0x7FFFFFFF),
        head(4, 1),
        head(100, 97),
        head(100, 0xFFFFFF),
        head(100, 10, 2),
        head(100, 10, 0x7B),
        head(100, 10, 255),
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"PROXY TCP4",
    ],
)
def test_a_wrong_head_is_refused_before_its_frame_arrives(data: bytes) -> None:
    for pieces in ([data], [bytes([byte]) for byte in data]):
        connection = FramedConnection()
        with pytest.raises(FrameError) as caught:
            seen(connection, pieces)
        assert caught.value.closes_connection
        with pytest.raises(FrameError):  # dead from then on
            connection.receive(encode(make_request(105, 1)))


def test_the_largest_frame_passes_and_one_byte_more_does_not() -> None:
    overhead = len(encode(make_request(10, 1)))
    frame = encode(make_request(10, 1, None, bytes(MAX_FRAME - overhead)))
    assert len(frame) == MAX_FRAME
    assert len(FramedConnection().receive(frame)) == 1
    with pytest.raises(FrameError):
        FramedConnection().receive(encode(make_request(10, 1, None, bytes(MAX_FRAME - overhead + 1))))


def test_commands_in_front_of_a_bad_frame_are_kept() -> None:
    good = encode(make_request(105, 9))
    with pytest.raises(FrameError) as caught:
        FramedConnection().receive(good + head(3))
    assert [command.opaque for command in caught.value.before] == [9]


def test_closing_inside_a_frame_is_an_error_and_between_frames_is_not() -> None:
    frame = encode(make_request(105, 9))
    connection = FramedConnection()
    connection.receive(frame)
    connection.receive_eof()
    connection.receive(frame[:-1])
    with pytest.raises(FrameError, match="into a frame"):
        connection.receive_eof()


def test_commands_leave_in_order_and_once() -> None:
    connection = FramedConnection()
    small = make_request(105, 1, {"topic": "T"}, b"small")
    large = make_request(10, 2, None, bytes(10_000))
    connection.send(small)
    connection.send(large)
    connection.send(make_request(34, 3))
    expected = encode(small) + encode(large) + encode(make_request(34, 3))
    assert connection.queued_bytes == len(expected)
    buffers = connection.data_to_send()
    assert b"".join(buffers) == expected
    assert large.body in buffers  # not copied
    assert connection.data_to_send() == []
    assert connection.queued_bytes == 0


def test_a_frame_above_the_limit_is_not_queued() -> None:
    connection = FramedConnection(max_frame=1000)
    with pytest.raises(FrameError, match="above the limit"):
        connection.send(make_request(10, 1, None, bytes(1000)))
    assert connection.data_to_send() == []


def test_a_peer_that_does_not_read_makes_the_connection_full() -> None:
    connection = FramedConnection(max_queued=100)
    connection.send_frame(bytes(100))
    assert not connection.full
    connection.send_frame(b"x")
    assert connection.full
    connection.data_to_send()
    assert not connection.full


def test_a_frame_in_pieces_of_a_few_bytes_costs_little_more_than_its_bytes() -> None:
    frame = encode(make_request(11, 1, body=bytes(300_000)))
    connection = FramedConnection()
    tracemalloc.start()
    try:
        for at in range(0, len(frame) - 3, 3):
            assert connection.receive(frame[at : at + 3]) == []
        assert tracemalloc.get_traced_memory()[0] < 2 * len(frame)
    finally:
        tracemalloc.stop()
    at = (len(frame) - 4) // 3 * 3 + 3
    (command,) = connection.receive(frame[at:])
    assert len(command.body) == 300_000
