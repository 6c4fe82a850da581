"""Errors caused by bytes of a peer, classified by their effect.

A `FrameError` closes the connection, as in Java's NettyDecoder; a `HeaderError` or a `BodyError` fails one request,
which gets a response with `ANSWERED_AS`. The classes have no ``code``, because two classes cannot have the same code.
Not compiled, because native exception classes neither pickle nor have class attributes.
"""

from __future__ import annotations

from typing import Any, Final

from bolide.errors import PeerError, ProtocolError

ANSWERED_AS: Final = 1
"""Response code (SYSTEM_ERROR) for a header or body that a server cannot decode, as in Java."""


class FrameError(ProtocolError):
    """A frame breaks the format or a limit. `before` contains the complete `Command` objects received before it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.before: list[Any] = []


class HeaderError(PeerError):
    """The header of one request is invalid; the message names the field. Respond with `ANSWERED_AS`."""


class BodyError(PeerError):
    """The body of one command is invalid; the message contains the location. Respond with `ANSWERED_AS`."""


class CompressionError(BodyError):
    """A compressed body is torn, has an unknown type, or exceeds the limit when inflated."""


class CompressionMissing(CompressionError):
    """The package that inflates this kind of body is not installed; the body itself may be valid."""
