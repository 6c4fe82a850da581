"""Bodies as values: codecs turn a Python value into the bytes of a body, and back.

JSON uses msgspec, which checks its input against a type: a `msgspec.Struct`, a dataclass, a TypedDict or a type such as
``list[int]``. Pydantic models are supported if pydantic is installed; Bolide itself does not need it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Protocol, runtime_checkable

import msgspec

from bolide.client.messages.arguments import check_callable
from bolide.client.messages.errors import MessageRefused
from bolide.client.messages.message import Message
from bolide.client.messages.user_code import raise_interruption
from bolide.errors import ArgumentError, BolideError, reason

NO_VALUE: Final = msgspec.UNSET


class CodecError(BolideError, ValueError):
    """The codec cannot decode a body: the sender uses another codec, or another version of the type."""


class CodecContext(Protocol):
    """The message that contains a body: a `Message` that is sent, or a `ReceivedMessage`. A codec must not change
    it."""

    @property
    def topic(self) -> str:
        """The topic of the message. For a retry, this is the original topic."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The application's properties. For a received message, they include the protocol's properties."""


@runtime_checkable
class Codec(Protocol):
    """Interface of a codec. Both methods may raise any exception."""

    def encode(self, value: Any, context: CodecContext) -> bytes:
        """Return the body for a value. `context` is the message to send."""

    def decode(self, body: bytes, context: CodecContext) -> Any:
        """Return the value of a body. `context` is the message received."""


CodecChoice = Codec | str | type | None
"""A codec, ``"json"``, a type whose values are sent as JSON, or None."""
CodecsByTopic = CodecChoice | Mapping[str, CodecChoice]
"""A codec for all topics, or several by topic."""


class JsonCodec:
    """JSON codec that uses msgspec. `kind` is the type of the decoded values; bodies are checked against it. The
    default allows any JSON. Raises `TypeError` for a type that msgspec does not support."""

    def __init__(self, kind: Any = Any) -> None:
        self.kind = kind
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(kind)

    def __repr__(self) -> str:
        return f"JsonCodec({'' if self.kind is Any else _name(self.kind)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind,)

    def encode(self, value: Any, context: CodecContext | None = None) -> bytes:
        """Return a value as JSON."""
        return self._encoder.encode(value)

    def decode(self, body: bytes, context: CodecContext | None = None) -> Any:
        """Decode a value. Raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
        return self._decoder.decode(body)


class PydanticCodec:
    """JSON codec that uses pydantic. `kind` is a model, or any type that its ``TypeAdapter`` supports. Raises
    `ImportError` if pydantic is not installed."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._adapter = importlib.import_module("pydantic").TypeAdapter(kind)

    def __repr__(self) -> str:
        return f"PydanticCodec({_name(self.kind)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.kind,)

    def encode(self, value: Any, context: CodecContext | None = None) -> bytes:
        """Return a value as JSON."""
        body: bytes = self._adapter.dump_json(value)
        return body

    def decode(self, body: bytes, context: CodecContext | None = None) -> Any:
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
        try:
            return PydanticCodec(choice) if model else JsonCodec(choice)
        except TypeError as error:
            raise ArgumentError(f"codec {choice.__name__} cannot be decoded: {error}", "codec") from error
    if not isinstance(choice, Codec):
        raise ArgumentError(
            f'codec {choice!r} has no encode and decode, give "json", a type, or an object with both', "codec"
        )
    check_callable("codec.encode", choice.encode, "value, context")
    check_callable("codec.decode", choice.decode, "body, context")
    return choice


class TopicCodecs:
    """The codecs of a producer by topic, without the namespace."""

    def __init__(self, by_topic: Mapping[str, Codec | None]) -> None:
        self._by_topic = by_topic

    def of(self, topic: str) -> Codec | None:
        """Return the codec of a topic, or None."""
        return self._by_topic.get(topic)


def find_codecs(choice: CodecsByTopic) -> Codec | TopicCodecs | None:
    """Return the codec, or the codecs by topic, for a user's choice. Raises `ArgumentError`."""
    if isinstance(choice, Mapping):
        return TopicCodecs({topic: find_codec(each) for topic, each in choice.items()})
    return find_codec(choice)


def codec_of(codec: Codec | TopicCodecs | None, topic: str) -> Codec | None:
    """Return the codec of a topic, or None."""
    return codec.of(topic) if isinstance(codec, TopicCodecs) else codec


def with_body(message: Message, codecs: Codec | TopicCodecs | None) -> Message:
    """Return the message with its value encoded as the body. Raises `MessageRefused` if it cannot be encoded."""
    if message.value is NO_VALUE:
        return message
    if message.body:
        raise MessageRefused(f"a message to {message.topic} has a body and a value, give one of them", "value")
    codec = codec_of(codecs, message.topic)
    if codec is None:
        raise MessageRefused(
            f"a message to {message.topic} has a value, give the producer a codec for this topic", "value"
        )
    try:
        return replace(message, body=codec.encode(message.value, message))
    except BaseException as error:
        raise_interruption(error)
        raise MessageRefused(
            f"the value for topic {message.topic} cannot be encoded: {reason(error)}", "value"
        ) from error


def value_of(body: bytes, codec: Codec | None, message: CodecContext) -> Any:
    """Decode the value of the body of a received message. Raises `CodecError`."""
    if codec is None:
        raise CodecError(f"{message!r} has bytes only, give the consumer a codec to read values")
    try:
        return codec.decode(body, message)
    except BaseException as error:
        raise_interruption(error)
        raise CodecError(f"{codec!r} cannot decode the body of {message!r}: {reason(error)}") from error
