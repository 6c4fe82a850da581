"""For any bytes: an error of Bolide that says what is wrong, never another one, and never slowly."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.errors import PeerError
from bolide.remoting.batch import decode_batch
from bolide.remoting.bodies import decode_body, encode_body
from bolide.remoting.bodies.clients import HeartbeatData
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.bodies.stats import ConsumeStats
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE
from bolide.remoting.command import frame_head
from bolide.remoting.connection import FramedConnection
from bolide.remoting.headers import decode_header
from bolide.remoting.register import decode_register_body
from tests.remoting.vectors import frames, request_header, requests, vectors

HEADERS = {entry["code"]: request_header(entry["code"]) for entry in requests()}
FRAMES = [frame for _, frame in frames()]
JSON_LIKE = st.text(st.sampled_from("{}[]\",:\\u0019.-eEtrufalsn '$/*topicqueueIdrefx"), max_size=60)


def use_frames(data: bytes) -> None:
    """What a server does first: cut, decode, look at the fields."""
    for command in FramedConnection().receive(data):
        with contextlib.suppress(PeerError):
            command.ext()
        header = HEADERS.get(command.code)
        if header is not None:
            with contextlib.suppress(PeerError):
                decode_header(command, header).to_ext()


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    with contextlib.suppress(PeerError):
        use_frames(data)


@given(JSON_LIKE | st.text(max_size=40))
def test_any_json_header(text: str) -> None:
    for header in (text, '{"code":310,"extFields":' + text + "}", '{"code":11,"extFields":{"topic":' + text + "}}"):
        with contextlib.suppress(PeerError):
            use_frames(frame_head(header.encode("utf-8", "surrogatepass"), JSON_TYPE, 0))


@given(st.binary(max_size=80))
def test_any_binary_header(header: bytes) -> None:
    with contextlib.suppress(PeerError):
        use_frames(frame_head(header, BINARY_TYPE, 0))


@settings(max_examples=300)
@given(st.sampled_from(FRAMES), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4))
def test_any_frame_of_java_with_a_few_bytes_changed(frame: bytes, changes: list[tuple[int, int]]) -> None:
    data = bytearray(frame)
    for at, byte in changes:
        data[at % len(data)] = byte
    with contextlib.suppress(PeerError):
        use_frames(bytes(data))


@given(JSON_LIKE | st.binary(max_size=60))
def test_any_body(body: str | bytes) -> None:
    data = body.encode() if isinstance(body, str) else body
    for kind in (HeartbeatData, TopicRouteData, ConsumeStats):
        with contextlib.suppress(PeerError):
            encode_body(decode_body(data, kind))
    for version in (0, 407, 513):
        with contextlib.suppress(PeerError):
            decode_register_body(data, version == 407, version)
    with contextlib.suppress(PeerError):
        decode_batch(data)


@settings(max_examples=200)
@given(st.sampled_from([v["5.5.0"] for v in vectors("json_written")]), st.integers(0, 500), st.integers(0, 127))
def test_any_body_of_java_with_a_character_changed(text: str, at: int, character: int) -> None:
    at %= len(text)
    data = (text[:at] + chr(character) + text[at + 1 :]).encode()
    for kind in (HeartbeatData, TopicRouteData, ConsumeStats):
        with contextlib.suppress(PeerError):
            encode_body(decode_body(data, kind))
