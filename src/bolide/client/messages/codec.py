"""Bodies as values: codecs turn a Python value into the bytes of a body, and back.

JSON uses msgspec, which checks its input against a type: a `msgspec.Struct`, a dataclass, a TypedDict or a type such as
``list[int]``. Pydantic models are supported if pydantic is installed; Bolide itself does not need it.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.message import Message
from bolide.client.messages.user_code import raise_interruption
from bolide.errors import ArgumentError, BolideError, reason

NO_VALUE: Final = msgspec.UNSET


class CodecError(BolideError, ValueError):
    """The codec cannot decode a body: the sender uses another codec, or another version of the type."""


@runtime_checkable
class Codec(Protocol):
    """Interface of a codec. Both methods may raise any exception."""

    def encode(self, value: Any) -> bytes:
        """Return the body for a value."""

    def decode(self, body: bytes) -> Any:
        """Return the value of a body."""


CodecChoice = Codec | str | type | None
"""A codec; ``"json"``; or a type whose values are sent as JSON."""


class JsonCodec:
    """JSON by msgspec. `kind` is the type of the decoded values; bodies are checked against it.
    The default allows any JSON."""

    def __init__(self, kind: Any = Any) -> None:
        self.kind = kind
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(kind)

    def __repr__(self) -> str:
        return f"JsonCodec({'' if self.kind is Any else _name(self.kind)})"

    def encode(self, value: Any) -> bytes:
        """Return a value as JSON."""
        return self._encoder.encode(value)

    def decode(self, body: bytes) -> Any:
        """Decode a value. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
        return self._decoder.decode(body)


class PydanticCodec:
    """JSON by pydantic. `kind` is a model, or any type that its ``TypeAdapter`` supports.
    Raises `ImportError` without it."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._adapter = importlib.import_module("pydantic").TypeAdapter(kind)

    def __repr__(self) -> str:
        return f"PydanticCodec({_name(self.kind)})"

    def encode(self, value: Any) -> bytes:
        """Return a value as JSON."""
        body: bytes = self._adapter.dump_json(value)
        return body

    def decode(self, body: bytes) -> Any:
        """Decode a value. Raises `pydantic.ValidationError`."""
        return self._adapter.validate_json(body)


def _name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else repr(kind)


def find_codec(choice: CodecChoice) -> Codec | None:
    """Return the codec for a user's choice, or None. Raises `ArgumentError`."""
    if choice is None:
        return None
    if isinstance(choice, str):
        if choice.lower() != "json":
            raise ArgumentError(
                f'codec {choice!r} is unknown, give "json", a type, or an object with encode and decode', "codec"
            )
        return JsonCodec()
    if isinstance(choice, type):
        # The user cannot have a pydantic model without having imported pydantic.
        pydantic = sys.modules.get("pydantic")
        model = pydantic is not None and issubclass(choice, pydantic.BaseModel)
        return PydanticCodec(choice) if model else JsonCodec(choice)
    if not isinstance(choice, Codec):
        raise ArgumentError(
            f'codec {choice!r} has no encode and decode, give "json", a type, or an object with both', "codec"
        )
    return choice


def with_body(message: Message, codec: Codec | None) -> Message:
    """Return the message with its value encoded as the body. Raises `MessageRefused` if it cannot be encoded."""
    if message.value is NO_VALUE:
        return message
    if message.body:
        raise MessageRefused(f"a message to {message.topic} has a body and a value, give one of them", "value")
    if codec is None:
        raise MessageRefused(f"a message to {message.topic} has a value, give the producer a codec", "value")
    try:
        return replace(message, body=codec.encode(message.value))
    except BaseException as error:
        raise_interruption(error)
        raise MessageRefused(
            f"the value for topic {message.topic} cannot be encoded: {reason(error)}", "value"
        ) from error


def value_of(body: bytes, codec: Codec | None, place: str) -> Any:
    """Decode the value of a received body. Raises `CodecError`."""
    if codec is None:
        raise CodecError(f"{place} has bytes only, give the consumer a codec to read values")
    try:
        return codec.decode(body)
    except BaseException as error:
        raise_interruption(error)
        raise CodecError(f"{codec!r} cannot decode the body of {place}: {reason(error)}") from error
