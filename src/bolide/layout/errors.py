"""Errors of the layout package: invalid stored bytes.

Separate from the codecs because they are compiled, and a native class cannot extend an interpreted exception.
"""

from __future__ import annotations

from bolide.errors import LocalError, PeerError


class LayoutError(LocalError):
    """Stored bytes that RocketMQ would not write. The message names the bytes, their position and the error."""


class RecordError(LayoutError):
    """Bytes that are not a CommitLog record, or values that cannot become one."""


class MessageIdError(PeerError):
    """A text that is not a message id, or an address that cannot become part of one."""
