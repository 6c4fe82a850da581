"""One hostile input: bytes for a fresh connection, and what must come back within a second."""

import struct
from dataclasses import dataclass

from proof.kit.wire import SEND_MESSAGE_V2, send_ext
from proof.reader.frames import frame, header

CLOSED = None
"""The peer closes the connection instead of answering."""


@dataclass(frozen=True)
class Attack:
    """`expected` is the response code, or CLOSED. `eof`: the connection is closed after the bytes."""

    name: str
    data: bytes
    expected: int | None
    eof: bool = False


def raw_frame(length: int, mark: int, rest: bytes = b"") -> bytes:
    """A frame whose lengths are chosen freely; `mark` is the serialize type and the header length."""
    return struct.pack(">II", length & 0xFFFFFFFF, mark & 0xFFFFFFFF) + rest


def request(name: str, code: int, ext: dict[str, str] | None, expected: int | None, body: bytes = b"") -> Attack:
    """A well-formed frame with a hostile header or body."""
    return Attack(name, frame(header(code, ext), body), expected)


def send(name: str, expected: int | None, body: bytes = b"x", topic: str = "hostile", **changed: str) -> Attack:
    """A SEND_MESSAGE_V2 with some fields replaced."""
    return request(name, SEND_MESSAGE_V2, send_ext(topic, **changed), expected, body)


def without(ext: dict[str, str], *names: str) -> dict[str, str]:
    """The fields but these."""
    return {name: value for name, value in ext.items() if name not in names}


WHOLE = frame(header(SEND_MESSAGE_V2, send_ext("hostile")), b"x")

FRAMES = [
    Attack("length 0", raw_frame(0, 0), CLOSED),
    Attack("length 3, less than its own header length", raw_frame(3, 0), CLOSED),
    Attack("length -1", raw_frame(-1, 0), CLOSED),
    Attack("length of 2 GiB", raw_frame(0x7FFFFFFF, 100), CLOSED),
    Attack("length one above the limit", raw_frame(16 * 1024 * 1024 - 3, 100), CLOSED),
    Attack("oversize frame that is really sent", raw_frame(20_000_000, 100, b"x" * 20_000_000), CLOSED),
    Attack("header longer than the frame", raw_frame(104, 101, b"x" * 100), CLOSED),
    Attack("header length of 16 MiB in a small frame", raw_frame(104, 0xFFFFFF, b"x" * 100), CLOSED),
    Attack("serialize type 2", frame(header(310), b"", 2), CLOSED),
    Attack("serialize type 255", frame(header(310), b"", 255), CLOSED),
    Attack("empty header", raw_frame(4, 0), CLOSED),
    Attack("HTTP request", b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", CLOSED),
    Attack("lines of text", b"hello\r\nworld\r\n", CLOSED),
    Attack("TLS hello without TLS", b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00" * 8, CLOSED),
    Attack("bytes of 0xFF", b"\xff" * 4096, CLOSED),
    Attack("two bytes, then the end", WHOLE[:2], CLOSED, eof=True),
    Attack("lengths alone, then the end", WHOLE[:8], CLOSED, eof=True),
    Attack("half a header, then the end", WHOLE[:60], CLOSED, eof=True),
    Attack("all but the last byte, then the end", WHOLE[:-1], CLOSED, eof=True),
]


def binary(remark_length: int = 0, ext_length: int = 8, key_length: int = 1, value_length: int = 1) -> Attack:
    """A SEND header in RocketMQ's binary form, with one field, whose lengths may lie."""
    field = struct.pack(">h", key_length) + b"b" + struct.pack(">i", value_length) + b"t"
    head = struct.pack(">hBhiii", SEND_MESSAGE_V2, 0, 513, 1, 0, remark_length) + struct.pack(">i", ext_length) + field
    lies = f"remark {remark_length}, fields {ext_length}, key {key_length}, value {value_length}"
    return Attack(f"binary header, lengths: {lies}", frame(head, form=1), CLOSED)


HEADERS = [
    Attack("header that is not JSON", frame(b"hello"), CLOSED),
    Attack("header that is a JSON list", frame(b"[310]"), CLOSED),
    Attack("header that is a JSON number", frame(b"310"), CLOSED),
    Attack("header cut off", frame(header(310, send_ext("hostile"))[:-20]), CLOSED),
    Attack("header of zero bytes", frame(b"\0" * 64), CLOSED),
    Attack("header nested 100,000 deep", frame(b'{"code":' + b"[" * 100_000), CLOSED),
    Attack("extFields nested 100,000 deep", frame(b'{"code":310,"extFields":' + b'{"a":' * 100_000), CLOSED),
    Attack("code that is a word", frame(header(310).replace(b":310", b':"send"')), CLOSED),
    Attack("code beyond 32 bits", frame(header(310).replace(b":310", b":99999999999999999999")), CLOSED),
    Attack("extFields that is a list", frame(b'{"code":310,"extFields":[1,2],"flag":0,"opaque":1}'), CLOSED),
    Attack("UTF-8 cut inside a header key", frame(b'{"code":310,"\xe6\xad'), CLOSED),
    Attack("binary header of five bytes", frame(b"\x01\x36\x00\x02\x01", b"", 1), CLOSED),
    binary(remark_length=1 << 20),
    binary(ext_length=1 << 20),
    binary(key_length=3000),
    binary(key_length=-2),
    binary(value_length=1 << 30),
    binary(value_length=-9),
]
