"""Why a replication connection ends."""

from __future__ import annotations

from bolide.errors import ProtocolError


class NotReplicated(ProtocolError):
    """The peer broke the protocol, or its log and this one are not the same: the text names the offset."""


class LogKept(NotReplicated):
    """The replica rejects the master: following it would discard confirmed bytes, or both logs differ."""

    def __init__(self, text: str, at: int) -> None:
        """`at`: the replica can follow once an operator truncates its log at this offset."""
        super().__init__(text)
        self.at = at


class EpochsDamaged(ProtocolError):
    """What should be the epochs of a log cannot be those of any."""
