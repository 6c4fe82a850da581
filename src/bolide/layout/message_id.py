"""Message ids: the broker's (store host and offset) and the client's unique key. RocketMQ's MessageDecoder and
MessageClientIDSetter. Hosts are stored as 4 or 16 bytes of IP followed by the port as int32.
"""

from __future__ import annotations

import ipaddress
from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.layout.errors import MessageIdError

HOST_V4_SIZE: Final = 8
HOST_V6_SIZE: Final = 20
UNIQUE_ID_V4_SIZE: Final = 16
UNIQUE_ID_V6_SIZE: Final = 28
_V4_TEXT: Final = 32
_V6_TEXT: Final = 56


def encode_host(ip: str, port: int) -> bytes:
    """Encode a host as 8 bytes (IPv4) or 20 bytes (IPv6). Raises MessageIdError if `ip` or `port` is invalid."""
    try:
        packed = ipaddress.ip_address(ip).packed
    except ValueError:
        raise MessageIdError(f"{ip!r} is not an IP address: give a numeric IPv4 or IPv6 address") from None
    if not 0 <= port <= 0x7FFFFFFF:
        raise MessageIdError(f"{port} is not a port of {ip}: give 0 to 65535")
    return packed + port.to_bytes(4, "big")


def decode_host(raw: bytes) -> tuple[str, int]:
    """Return the IP text and the port of a stored host. Raises MessageIdError for a wrong length."""
    size = len(raw)
    if size == HOST_V4_SIZE:
        return f"{raw[0]}.{raw[1]}.{raw[2]}.{raw[3]}", i64(read_i32_be(raw, 4))
    if size == HOST_V6_SIZE:
        return str(ipaddress.IPv6Address(raw[:16])), i64(read_i32_be(raw, 16))
    raise MessageIdError(f"a stored host has 8 or 20 bytes, not {size}")


def host_text(raw: bytes) -> str:
    """Return ``ip:port`` of a stored host, with brackets around an IPv6 address."""
    ip, port = decode_host(raw)
    return f"{ip}:{port}" if len(raw) == HOST_V4_SIZE else f"[{ip}]:{port}"


def offset_message_id(host: bytes, physical_offset: i64) -> str:
    """Return the id that a broker assigns: upper-case hex of store host and physical offset, 32 or 56 characters."""
    return host.hex().upper() + f"{int(physical_offset) & 0xFFFFFFFFFFFFFFFF:016X}"


def decode_offset_message_id(text: str) -> tuple[str, int, int]:
    """Return IP, port and physical offset. Raises MessageIdError if the text is not an offset message id."""
    try:
        raw = bytes.fromhex(text) if len(text) == _V4_TEXT or len(text) == _V6_TEXT else b""
    except ValueError:
        raw = b""
    at: i64 = len(raw) - 8
    if at != HOST_V4_SIZE and at != HOST_V6_SIZE:
        raise MessageIdError(f"{text!r} is not an offset message id, which has 32 or 56 hex digits")
    ip, port = decode_host(raw[:at])
    return ip, port, read_i64_be(raw, at)


@final
class UniqueId:
    """The parts of a client's unique key; `month_ms` is the time since the local start of the month, in ms (32
    bits)."""

    def __init__(self, ip: bytes, pid: int, process_hash: int, month_ms: int, counter: int) -> None:
        self.ip: bytes = ip
        self.pid: int = pid
        self.process_hash: int = process_hash
        self.month_ms: int = month_ms
        self.counter: int = counter


def encode_unique_id(ip: bytes, pid: int, process_hash: int, month_ms: int, counter: int) -> str:
    """Return a unique key: upper-case hex of its parts.

    The parts are IP (4 or 16 bytes), pid (low 16 bits), hash, time (low 32 bits) and counter (low 16 bits).
    """
    return (
        ip.hex().upper()
        + f"{pid & 0xFFFF:04X}{process_hash & 0xFFFFFFFF:08X}{month_ms & 0xFFFFFFFF:08X}{counter & 0xFFFF:04X}"
    )


def decode_unique_id(text: str) -> UniqueId:
    """Return the parts of a unique key. Raises MessageIdError for other texts (a producer may set any text)."""
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    size = len(raw)
    if size != UNIQUE_ID_V4_SIZE and size != UNIQUE_ID_V6_SIZE:
        raise MessageIdError(f"{text!r} is not the unique id of a client, which has 32 or 56 hex digits")
    rest = raw[size - 12 :]
    return UniqueId(
        raw[: size - 12],
        int.from_bytes(rest[:2], "big"),
        int.from_bytes(rest[2:6], "big"),
        int.from_bytes(rest[6:10], "big"),
        int.from_bytes(rest[10:], "big"),
    )
