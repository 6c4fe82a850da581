"""The replication stream between a master and its slaves (DefaultHAConnection.java, DefaultHAClient.java).

No frames: the slave writes its CommitLog end as int64, again and again; the master writes ``int64 physical offset |
int32 size | bytes``, where size 0 is a heartbeat that names the next offset. Both directions are decoded here from
arriving pieces of any size; the owner of the socket decides what an offset means.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from bolide.remoting.errors import FrameError

REPORT: Final = struct.Struct(">q")
TRANSFER: Final = struct.Struct(">qi")
MAX_TRANSFER: Final = 16 * 1024 * 1024  # bytes of one body; Java sends 32 KiB at most


class Transfer(NamedTuple):
    """CommitLog bytes from `physical_offset` on; no bytes is a heartbeat."""

    physical_offset: int
    data: bytes


def encode_report(physical_offset: int) -> bytes:
    """What a slave writes: the end of its CommitLog."""
    return REPORT.pack(physical_offset)


def encode_transfer(physical_offset: int, data: bytes) -> bytes:
    """What a master writes; with no data, the heartbeat."""
    return TRANSFER.pack(physical_offset, len(data)) + data


class ReportReader:
    """Slave to master: of all complete offsets that arrived, only the last counts."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> int | None:
        """The last offset that became whole with `data`, or None. Raises FrameError for a negative one."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        if not whole:
            return None
        offset: int = REPORT.unpack_from(data, whole - REPORT.size)[0]
        if offset < 0:
            raise FrameError(f"a slave reports the offset {offset}; only 0 and above exist")
        return offset


class TransferReader:
    """Master to slave."""

    def __init__(self, max_transfer: int = MAX_TRANSFER) -> None:
        self.max_transfer = max_transfer
        self._buffer = bytearray()

    def receive(self, data: bytes) -> list[Transfer]:
        """The transfers that became whole with `data`. Raises FrameError for a size outside 0 to `max_transfer`."""
        self._buffer += data
        transfers: list[Transfer] = []
        at = 0
        while len(self._buffer) - at >= TRANSFER.size:
            offset, size = TRANSFER.unpack_from(self._buffer, at)
            if offset < 0 or not 0 <= size <= self.max_transfer:
                raise FrameError(f"a transfer of {size} bytes at offset {offset} is outside the limits; reconnect")
            if len(self._buffer) - at - TRANSFER.size < size:
                break
            at += TRANSFER.size
            transfers.append(Transfer(offset, bytes(self._buffer[at : at + size])))
            at += size
        del self._buffer[:at]
        return transfers
