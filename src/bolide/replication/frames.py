"""Frames of default HA mode (docs/protocol/ha.md 1).

A slave repeatedly sends the end of its log as int64. The master sends `int64 physical offset | int32 size | bytes`;
size 0 is a heartbeat with the next offset. Both readers accept data in pieces of any size and buffer less than one
header, because they return the bytes of a transfer as they arrive.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from bolide.replication.errors import NotReplicated

REPORT: Final = struct.Struct(">q")
HEADER: Final = struct.Struct(">qi")
MAX_BODY: Final = 4 * 1024 * 1024 - HEADER.size
"""Maximum bytes of one transfer. A larger transfer would never be complete in the buffer of a Java slave."""


class Piece(NamedTuple):
    """Bytes of the master's log, starting at `offset`. Empty for a heartbeat."""

    offset: int
    data: bytes


def encode_report(offset: int) -> bytes:
    """Encode a slave's report: the end of its log."""
    return REPORT.pack(offset)


def encode_header(offset: int, size: int) -> bytes:
    """Encode the header of a transfer of `size` bytes, or of a heartbeat if `size` is 0."""
    return HEADER.pack(offset, size)


class ReportReader:
    """Decodes the reports of a slave. Only the last complete offset of each read is used."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> int | None:
        """Return the last offset that is complete after `data`, or None. Raises `NotReplicated` if it is negative."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        offset: int = REPORT.unpack_from(data, whole - REPORT.size)[0]
        if offset < 0:
            raise NotReplicated(f"it reports the offset {offset}; only 0 and above exist")
        return offset


class TransferReader:
    """Decodes the transfers of a master."""

    def __init__(self, max_body: int = MAX_BODY) -> None:
        self._max_body = max_body
        self._header = b""
        self._at = 0
        self._size = -1
        self._left = 0
        """Number of bytes of the current transfer that have not arrived. The next one has the offset `_at`."""

    @property
    def last_whole(self) -> int:
        """Size of the last transfer, or -1 within a transfer and before the first."""
        return -1 if self._left or self._header else self._size

    def receive(self, data: bytes) -> list[Piece]:
        """Return the received pieces in order. Raises `NotReplicated` for a negative offset or an invalid size."""
        pieces: list[Piece] = []
        begin = 0
        while begin < len(data):
            if self._left:
                body = data[begin : begin + self._left]
                pieces.append(Piece(self._at, body))
                self._at += len(body)
                self._left -= len(body)
                begin += len(body)
                continue
            missing = HEADER.size - len(self._header)
            self._header += data[begin : begin + missing]
            begin += missing
            if len(self._header) < HEADER.size:
                break
            self._at, size = HEADER.unpack(self._header)
            self._header = b""
            if self._at < 0 or not 0 <= size <= self._max_body:
                raise NotReplicated(f"it sends {size} bytes at offset {self._at}, which is outside the limits")
            self._left = self._size = size
            if size == 0:
                pieces.append(Piece(self._at, b""))
        return pieces
