"""A slave that drops what it is sent, until its master ends: `python bench/dropping_slave.py HOST PORT`.

It reads the log in plain mode (docs/protocol/ha.md 1) and reports what it has read, as a slave on another machine does:
of that one's work nothing takes the processors of the master here but what the kernel does to receive.
"""

import socket
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bolide.replication.frames import encode_report

_HEADER = struct.Struct(">qi")
_ROOM = 2 << 20


def follow(connection: socket.socket) -> None:
    """Read transfers and report the end of each read."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(encode_report(0))
    room = memoryview(bytearray(_ROOM))
    have = body = end = 0
    while count := connection.recv_into(room[have:]):
        have += count
        at = 0
        while True:
            taken = min(body, have - at)
            at, body, end = at + taken, body - taken, end + taken
            if body or have - at < _HEADER.size:
                break
            end, body = _HEADER.unpack_from(room, at)
            at += _HEADER.size
        rest = have - at
        room[:rest] = room[at:have]
        have = rest
        connection.sendall(encode_report(end))


def main() -> None:
    """The command line."""
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
        follow(connection)


if __name__ == "__main__":
    main()
