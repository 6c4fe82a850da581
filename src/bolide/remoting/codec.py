"""Encodes responses and requests for one kind of connection: the last step before the socket.

Before this step, a response is a value. Its code and remark may still change, for example if a send times out.
"""

from __future__ import annotations

from typing import Final, TypeAlias, final

from mypy_extensions import mypyc_attr

from bolide.remoting.codes import SUCCESS, SYSTEM_ERROR
from bolide.remoting.command import Command, encode
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from bolide.remoting.response_bytes import Buffer, PullResponse, SendResponse, response_of


@final
class EncodedResponses:
    """Responses to successful sends, which `broker.send.send_kernel` encoded for a remoting connection.

    A changed `code` or `remark` applies to all of them.
    """

    def __init__(self, frames: bytes) -> None:
        self.frames: bytes = frames
        self.code: int = SUCCESS
        self.remark: str | None = None


Response: TypeAlias = Command | SendResponse | PullResponse
"""A response of a handler."""
Outgoing: TypeAlias = Response | EncodedResponses


@mypyc_attr(allow_interpreted_subclasses=True)
class WireCodec:
    """The encoding of RocketMQ's remoting protocol. A subclass for another kind of connection overrides `encode`."""

    def encode(self, message: Outgoing) -> list[Buffer]:
        """Return the frame of a message in pieces, to be sent in this order. The records of a pull are not copied.

        A response that cannot be encoded becomes an error. Raises `FrameError` or `ValueError` for a request that
        cannot be encoded.
        """
        if isinstance(message, EncodedResponses):
            return [message.frames if message.code == SUCCESS else changed(message)]
        try:
            if isinstance(message, SendResponse):
                return [message.frame()]
            if isinstance(message, PullResponse):
                return message.frame()
            return [encode(message)]
        except (FrameError, ValueError) as error:  # a length that does not fit, or half of a surrogate pair
            if isinstance(message, Command) and not message.is_response:
                raise
            text = f"{type(error).__name__}: {error}"
            return [encode(response_of(SYSTEM_ERROR, message.opaque, message.serialize_type, text))]


REMOTING: Final = WireCodec()


def changed(responses: EncodedResponses) -> bytes:
    """Return the frames with the changed code and remark. This is rare, so they are decoded."""
    frames: list[bytes] = []
    for response in FramedConnection().receive(responses.frames):
        response.code = responses.code
        response.remark = responses.remark
        frames.append(encode(response))
    return b"".join(frames)
