"""The PROXY preamble, versions 1 and 2, in which a load balancer sends the address of a connection's client.

Format: HAProxy's "The PROXY protocol" (proxy-protocol.txt), sections 2.1 and 2.2. Like RocketMQ
(NettyRemotingServer.HandshakeHandler), Bolide accepts it on every port. No I/O.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from bolide.errors import ProtocolError

V1_PREFIX: Final = b"PROXY "
V1_MAX: Final = 107
"""Maximum length of a line of version 1 with its CR LF, by the specification."""
V2_SIGNATURE: Final = b"\r\n\r\n\0\r\nQUIT\n"
V2_HEADER: Final = 16
V2_MAX: Final = 2048
"""Maximum number of bytes of addresses and extensions in version 2, whose length field could claim 64 KiB per peer."""
_ADDRESS_BYTES: Final = {0x11: 4, 0x21: 16}
"""Size of an address in bytes, by family and transport (TCP over IPv4, TCP over IPv6)."""


class Preamble:
    """A complete preamble: its length in bytes and its client, or "" if it contains no client (UNKNOWN, LOCAL)."""

    def __init__(self, size: int, ip: str = "", port: int = 0) -> None:
        self.size = size
        self.ip = ip
        self.port = port


def may_begin(data: bytes) -> bool:
    """Return whether `data`, the first bytes of a connection, can still be a preamble."""
    return data.startswith((V1_PREFIX, V2_SIGNATURE)) or V1_PREFIX.startswith(data) or V2_SIGNATURE.startswith(data)


def read_preamble(data: bytes) -> Preamble | None:
    """Return the preamble at the start of `data`, or None while it is incomplete. Raises `ProtocolError` if it is
    invalid."""
    if data.startswith(V1_PREFIX):
        return _version_1(data)
    if data.startswith(V2_SIGNATURE):
        return _version_2(data)
    return None


def _version_1(data: bytes) -> Preamble | None:
    end = data.find(b"\r\n", 0, V1_MAX)
    if end < 0:
        if len(data) >= V1_MAX:
            raise ProtocolError(f"the PROXY line is longer than {V1_MAX} bytes")
        return None
    words = data[:end].split(b" ")
    if words[1] == b"UNKNOWN":
        return Preamble(end + 2)
    if len(words) != 6 or words[1] not in (b"TCP4", b"TCP6"):
        raise ProtocolError(f"the PROXY line {data[:end]!r} is not `PROXY TCP4|TCP6 source destination port port`")
    version = 4 if words[1] == b"TCP4" else 6
    try:
        ip = ipaddress.ip_address(words[2].decode("ascii"))
        port = int(words[4])
    except ValueError:
        raise ProtocolError(f"the PROXY line {data[:end]!r} has a bad source address") from None
    if ip.version != version or not 0 <= port <= 0xFFFF:
        raise ProtocolError(f"the PROXY line {data[:end]!r} has a bad source address")
    return Preamble(end + 2, str(ip).partition("%")[0], port)


def _version_2(data: bytes) -> Preamble | None:
    if len(data) < V2_HEADER:
        return None
    command, family = data[12], data[13]
    length = int.from_bytes(data[14:16], "big")
    if command not in (0x20, 0x21):
        raise ProtocolError(f"the PROXY preamble has version and command 0x{command:02x}: 0x20 and 0x21 are known")
    if length > V2_MAX:
        raise ProtocolError(f"the PROXY preamble is {length} bytes long: {V2_MAX} are taken")
    if len(data) < V2_HEADER + length:
        return None
    width = _ADDRESS_BYTES.get(family)
    if command == 0x20 or width is None:  # a health check by the balancer itself, or a transport that is not TCP
        return Preamble(V2_HEADER + length)
    if length < 2 * width + 4:
        raise ProtocolError(f"the PROXY preamble has {length} bytes where two addresses take {2 * width + 4}")
    ip = ipaddress.ip_address(data[V2_HEADER : V2_HEADER + width])
    at = V2_HEADER + 2 * width
    return Preamble(V2_HEADER + length, str(ip), int.from_bytes(data[at : at + 2], "big"))
