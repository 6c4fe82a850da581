"""Why a replication connection ends."""

from __future__ import annotations

from bolide.errors import ProtocolError


class NotReplicated(ProtocolError):
    """The peer broke the protocol, or its log and this one are not the same: the text names the offset."""
