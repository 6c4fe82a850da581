"""Why a replication connection ends."""

from __future__ import annotations

from bolide.errors import ProtocolError


class NotReplicated(ProtocolError):
    """The peer broke the protocol, or its log and this one are not the same: the text names the offset."""


class EpochsDamaged(ProtocolError):
    """What should be the epochs of a log cannot be those of any."""
