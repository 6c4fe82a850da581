"""Errors of the layout package: invalid stored bytes.

Separate from the codecs because those are compiled, and a native class cannot extend an interpreted exception.
"""

from __future__ import annotations

from bolide.errors import LocalError, PeerError


class LayoutError(LocalError):
    """Stored bytes are not what RocketMQ would write; the message names the bytes, their position and the fault."""


class RecordError(LayoutError):
    """Bytes that are not a CommitLog record, or values that cannot become one."""


class MessageIdError(PeerError):
    """A text that is not a message id, or an address that cannot become part of one."""
