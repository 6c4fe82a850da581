"""Creates UNIQ_KEY for messages whose producer did not set it, in the client's id format, as 5.x does.

Format: RocketMQ's MessageClientIDSetter (docs/protocol/remoting.md 9). Readers rely only on uniqueness and length.
"""

from __future__ import annotations

from typing import final

from bolide.layout.message_id import encode_unique_id


@final
class UniqKeys:
    """Creates unique keys in one process. `ip` is 4 or 16 address bytes."""

    def __init__(self, ip: bytes, pid: int, process_hash: int) -> None:
        self._ip: bytes = ip
        self._pid: int = pid & 0xFFFF
        self._process_hash: int = process_hash & 0xFFFFFFFF
        self._counter: int = 0

    def next(self, now: int) -> str:
        """Return a new key. `now`: ms since the epoch. Its low 32 bits replace the time since the start of the month,
        which the format requires."""
        self._counter = (self._counter + 1) & 0xFFFF
        return encode_unique_id(self._ip, self._pid, self._process_hash, now & 0xFFFFFFFF, self._counter)
