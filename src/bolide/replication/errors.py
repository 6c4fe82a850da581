"""Errors that end a replication connection."""

from __future__ import annotations

from bolide.errors import ProtocolError


class NotReplicated(ProtocolError):
    """The peer violated the protocol, or its log differs from the local log. The message contains the offset."""


class LogKept(NotReplicated):
    """A replica rejects its master and does not truncate its log: that could discard confirmed bytes, or one of the two
    logs is damaged."""

    def __init__(self, text: str, at: int) -> None:
        """`at`: offset at which an operator must truncate the replica's log before it can replicate from the master."""
        super().__init__(text)
        self.at = at


class EpochsDamaged(ProtocolError):
    """The epochs of a log are invalid."""
