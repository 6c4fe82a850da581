"""The PROXY preamble: whole, in pieces, for nobody, and wrong."""

from __future__ import annotations

import ipaddress

import pytest

from bolide.errors import ProtocolError
from bolide.transport.proxy_preamble import V1_MAX, V2_MAX, V2_SIGNATURE, may_begin, read_preamble

V1 = b"PROXY TCP4 203.0.113.7 10.0.0.1 56324 10911\r\n"


def version_2(command: int, family: int, body: bytes, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return V2_SIGNATURE + bytes((command, family)) + size.to_bytes(2, "big") + body


def addresses(source: str, own: str, port: int) -> bytes:
    packed = ipaddress.ip_address(source).packed + ipaddress.ip_address(own).packed
    return packed + port.to_bytes(2, "big") + (10911).to_bytes(2, "big")


V2_IPV4 = version_2(0x21, 0x11, addresses("203.0.113.7", "10.0.0.1", 56324) + b"\x03\0\x04abcd")
V2_IPV6 = version_2(0x21, 0x21, addresses("2001:db8::7", "::1", 9))


@pytest.mark.parametrize(
    ("data", "ip", "port"),
    [
        (V1, "203.0.113.7", 56324),
        (b"PROXY TCP6 2001:db8::7 ::1 9 10911\r\n", "2001:db8::7", 9),
        (b"PROXY UNKNOWN\r\n", "", 0),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "", 0),
        (V2_IPV4, "203.0.113.7", 56324),
        (V2_IPV6, "2001:db8::7", 9),
        (version_2(0x20, 0x00, b""), "", 0),
        (version_2(0x21, 0x31, b"x" * 216), "", 0),
    ],
)
def test_a_preamble_is_read_when_whole_and_not_before(data: bytes, ip: str, port: int) -> None:
    for cut in range(1, len(data)):
        assert may_begin(data[:cut])
        assert read_preamble(data[:cut]) is None
    found = read_preamble(data + b"\0\0\0\x10")
    assert found is not None
    assert (found.size, found.ip, found.port) == (len(data), ip, port)


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 203.0.113.7 10.0.0.1 56324\r\n",
        b"PROXY TCP4 203.0.113.700 10.0.0.1 1 2\r\n",
        b"PROXY TCP4 ::1 ::1 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n",
        b"PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n",
        b"PROXY " + b"x" * V1_MAX,
        version_2(0x31, 0x11, addresses("1.2.3.4", "1.2.3.4", 1)),
        version_2(0x21, 0x11, b"short"),
        version_2(0x21, 0x11, b"", V2_MAX + 1),
    ],
)
def test_a_bad_preamble_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="PROXY"):
        read_preamble(data)


@pytest.mark.parametrize("data", [b"\0\0\0\x10", b"\x16\x03\x01", b"POST / HTTP/1.1", b"\r\n\r\nGET"])
def test_anything_else_is_no_preamble(data: bytes) -> None:
    assert not may_begin(data)
    assert read_preamble(data) is None
