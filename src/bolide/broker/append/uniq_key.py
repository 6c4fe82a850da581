"""UNIQ_KEY for messages whose producer set none: the client's id format, made by the broker (5.x does so too).

Format: RocketMQ's MessageClientIDSetter (docs/protocol/remoting.md 9). Only uniqueness and length matter to anyone.
"""

from __future__ import annotations

from typing import final

from bolide.layout.message_id import encode_unique_id


@final
class UniqKeys:
    """Numbers messages of one process. `ip` is 4 or 16 address bytes."""

    def __init__(self, ip: bytes, pid: int, process_hash: int) -> None:
        self._ip: bytes = ip
        self._pid: int = pid & 0xFFFF
        self._process_hash: int = process_hash & 0xFFFFFFFF
        self._counter: int = 0

    def next(self, now: int) -> str:
        """A new key; `now` is ms since the epoch (its low 32 bits serve as the month's clock of the format)."""
        self._counter = (self._counter + 1) & 0xFFFF
        return encode_unique_id(self._ip, self._pid, self._process_hash, now & 0xFFFFFFFF, self._counter)
