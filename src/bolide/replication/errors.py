"""Errors that end a replication connection."""

from __future__ import annotations

from bolide.errors import ProtocolError


class NotReplicated(ProtocolError):
    """The peer violated the protocol, or its log differs from the local log. The message contains the offset."""


class LogKept(NotReplicated):
    """The replica rejects the master: following it would discard confirmed bytes, or both logs differ."""

    def __init__(self, text: str, at: int) -> None:
        """`at`: the replica can follow once an operator truncates its log at this offset."""
        super().__init__(text)
        self.at = at


class EpochsDamaged(ProtocolError):
    """The epochs of a log are invalid."""
