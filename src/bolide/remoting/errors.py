"""What can be wrong with bytes of a peer, by how much is lost with them.

A `FrameError` ends the connection, as in Java's NettyDecoder; a `HeaderError` or a `BodyError` spoils one request,
which is answered with its ``code``. They have no code of their own: no class owns 1 (SYSTEM_ERROR).
Not compiled: interpreted exception classes pickle and have class attributes; native ones do not.
"""

from __future__ import annotations

from typing import Any, Final

from bolide.errors import PeerError, ProtocolError

ANSWERED_AS: Final = 1
"""Response code (SYSTEM_ERROR) with which a server answers a header or body it cannot read, as Java does."""


class FrameError(ProtocolError):
    """A frame that breaks the format or a limit. `before` holds each `Command` that came whole ahead of it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.before: list[Any] = []


class HeaderError(PeerError):
    """The fields of one request cannot be understood: names the field. Answer with `ANSWERED_AS`."""


class BodyError(PeerError):
    """The body of one command cannot be understood: says where. Answer with `ANSWERED_AS`."""


class CompressionError(BodyError):
    """A compressed body is torn, of an unknown kind, or larger than the limit when inflated."""


class CompressionMissing(CompressionError):
    """The package that inflates this kind of body is not installed; the body itself may be good."""
