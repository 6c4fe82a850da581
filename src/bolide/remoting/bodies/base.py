"""Reads and writes JSON bodies.

Reading uses the strict decoder first. If it fails, the lenient reader parses the text and converts it to the struct
with Java's rules. Null keeps the field's default, numbers and strings are converted, and unknown names are skipped. An
enum is read by its name, ignoring case, or by its ordinal, and is None if unknown. Writing quotes every name and
integer key, and omits null fields. It writes a map keyed by `MessageQueue` with the object itself as the key, the only
form that both 4.9.7 and 5.5.0 read.
"""

from __future__ import annotations

import enum
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import inspect

from bolide.remoting.envelope import JSON_ENCODER, SORTED_ENCODER, Int32, Int64
from bolide.remoting.errors import BodyError
from bolide.remoting.json import MAX_ANSWER, MAX_TEXT, ObjectKey, parse_lenient, quoted_keys

__all__ = ["Body", "Int32", "Int64", "MessageQueue", "decode_answer", "decode_body", "encode_body"]


class Body(msgspec.Struct, rename="camel"):
    """Base class of all body structs. ``None`` is Java's null, which is not written."""


class MessageQueue(msgspec.Struct, frozen=True, rename="camel", order=True):
    """A queue of a topic at a broker, also the key of many maps. Sorts in the order of RocketMQ's rebalance."""

    topic: str = ""
    broker_name: str = ""
    queue_id: Int32 = 0


T = TypeVar("T")

_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}
_types: Final[dict[type, inspect.Type]] = {}
_encoders: Final[dict[type, msgspec.json.Encoder | None]] = {}


def decode_body(data: bytes, kind: type[T], limit: int = MAX_TEXT) -> T:
    """Decode `data` as a `kind`. `limit` is the maximum size in bytes of JSON that is not strict.

    Raises `BodyError` if the body is empty, cannot be read, or does not have the structure of `kind`.
    """
    if not data:
        raise BodyError(f"the body is empty; send a {kind.__name__} as JSON")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind, strict=False)
    if b'"$ref"' not in data:  # to the strict decoder a reference is an object with an unknown field
        try:
            return cast(T, decoder.decode(data))
        except (ValueError, RecursionError):  # msgspec's errors are among these
            pass
        if limit > MAX_TEXT:  # long responses of Java are strict except for their integer keys
            try:
                return cast(T, decoder.decode(quoted_keys(data)))
            except (ValueError, RecursionError):
                pass
    fitted = _Fitter().fit(parse_lenient(data, limit=limit), _described(kind), kind.__name__)
    if fitted is None:
        raise BodyError(f"the body is null; send a {kind.__name__} as JSON")
    return cast(T, fitted)


def decode_answer(data: bytes, kind: type[T]) -> T:
    """Like `decode_body`, for a response to a client's request. Also accepts Java's longest tables, whose keys are
    bare."""
    return decode_body(data, kind, limit=MAX_ANSWER)


class _Fitter:
    """Converts one leniently parsed value to structs. A container that occurs several times (by ``$ref``) is converted
    once."""

    def __init__(self) -> None:
        # By identity; the value is stored with its result so that its id stays valid as a key.
        self.done: dict[tuple[int, int], tuple[Any, Any]] = {}

    def fit(self, value: Any, kind: inspect.Type, where: str) -> Any:
        """Convert `value` to `kind`. Returns None for Java's null."""
        if isinstance(kind, inspect.UnionType):
            kind = next(part for part in kind.types if not isinstance(part, inspect.NoneType))
        if value is None or isinstance(kind, inspect.AnyType):
            return value
        if isinstance(kind, (inspect.StructType, inspect.DictType, inspect.CollectionType)):
            known = (id(value), id(kind))
            if known not in self.done:
                self.done[known] = (value, self.container(value, kind, where))
            return self.done[known][1]
        return _scalar(value, kind, where)

    def container(self, value: Any, kind: inspect.Type, where: str) -> Any:
        if isinstance(value, ObjectKey):
            value = value.value
        if isinstance(kind, inspect.StructType):
            return self.struct(value, kind, where)
        if isinstance(kind, inspect.DictType):
            return self.mapping(value, kind, where)
        if not isinstance(value, list) or not isinstance(kind, inspect.CollectionType):
            raise BodyError(f"{where} must be an array")
        items = [self.fit(item, kind.item_type, where) for item in value]
        if None in items and not _may_be_null(kind.item_type):
            raise BodyError(f"{where} has an element that is null")
        return set(items) if isinstance(kind, inspect.SetType) else items

    def struct(self, value: Any, kind: inspect.StructType, where: str) -> Any:
        if isinstance(value, str):  # a MessageQueue key written as a text that contains the object (4.9 reads it)
            value = parse_lenient(value, limit=4096)
        if not isinstance(value, dict):
            raise BodyError(f"{where} must be an object")
        fields: dict[str, Any] = {}
        for field in kind.fields:
            item = self.fit(value.get(field.encode_name), field.type, f"{where}.{field.encode_name}")
            if item is not None:
                fields[field.name] = item
        return kind.cls(**fields)

    def mapping(self, value: Any, kind: inspect.DictType, where: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise BodyError(f"{where} must be an object")
        items: dict[Any, Any] = {}
        nulls = _may_be_null(kind.value_type)
        for key, item in value.items():
            fitted_key, fitted = self.fit(key, kind.key_type, where), self.fit(item, kind.value_type, where)
            if fitted_key is None:
                raise BodyError(f"{where} has a key that is null")
            if fitted is not None or nulls:  # otherwise omitted, like a field
                items[fitted_key] = fitted
        return items


def _may_be_null(kind: inspect.Type) -> bool:
    return isinstance(kind, (inspect.AnyType, inspect.UnionType))


def _scalar(value: Any, kind: inspect.Type, where: str) -> Any:
    """Convert a number, string, boolean or enum like fastjson. An empty string is null, unless a string is expected."""
    if isinstance(kind, inspect.StrType):
        return value if isinstance(value, str) else JSON_ENCODER.encode(value).decode()
    if isinstance(kind, inspect.EnumType):
        return _member(value, kind.cls)
    if isinstance(value, str):
        value = value.strip()
        if value in ("", "null"):
            return None
    try:
        if isinstance(kind, inspect.BoolType):
            return str(value).lower() in ("true", "1", "y")
        if isinstance(kind, inspect.FloatType):
            return float(value)
        number = int(value)
    except (ValueError, TypeError, OverflowError):
        raise BodyError(f"{where} must be a number, not {str(value)[:40]!r}") from None
    if isinstance(kind, inspect.IntType) and not (kind.ge or -(2**63)) <= number <= (kind.le or 2**63 - 1):
        raise BodyError(f"{where} is out of range: {str(value)[:40]}")
    return number


def _member(value: Any, kind: type[enum.Enum]) -> enum.Enum | None:
    members = list(kind)
    if isinstance(value, int):
        return members[value] if 0 <= value < len(members) else None
    return next((member for member in members if member.name == str(value).upper()), None)


def encode_body(body: Any) -> bytes:
    """Encode a body struct as JSON that both Java releases read."""
    encoder = _encoder(type(body))
    if encoder is not None:
        return encoder.encode(body)
    out: list[bytes] = []
    _write(body, out)
    return b"".join(out)


def _encoder(kind: type) -> msgspec.json.Encoder | None:
    """Return a msgspec encoder for this type, or None if a field may be null or a key is an object."""
    if kind not in _encoders:
        described = _described(kind)
        plain = SORTED_ENCODER if not _has_int_keys(described) else JSON_ENCODER
        _encoders[kind] = plain if _is_plain(described) else None
    return _encoders[kind]


def _described(kind: type) -> inspect.Type:
    known = _types.get(kind)
    if known is None:
        known = _types[kind] = inspect.type_info(kind)
    return known


def _is_plain(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.DictType) and isinstance(kind.key_type, inspect.StructType):
        return False
    return not isinstance(kind, (inspect.UnionType, inspect.AnyType)) and all(map(_is_plain, _parts(kind)))


def _has_int_keys(kind: inspect.Type) -> bool:
    """Return whether a map has integer keys: msgspec's encoder cannot sort it, and Java does not sort it either."""
    here = isinstance(kind, inspect.DictType) and isinstance(kind.key_type, inspect.IntType)
    return here or any(map(_has_int_keys, _parts(kind)))


def _parts(kind: inspect.Type) -> list[inspect.Type]:
    """Return the types inside a type, except the types of keys."""
    if isinstance(kind, inspect.StructType):
        return [field.type for field in kind.fields]
    if isinstance(kind, inspect.DictType):
        return [kind.value_type]
    return [kind.item_type] if isinstance(kind, inspect.CollectionType) else []


def _write(value: Any, out: list[bytes]) -> None:
    if isinstance(value, msgspec.Struct):
        encoder = _encoder(type(value))
        if encoder is not None:
            out.append(encoder.encode(value))
            return
        names = sorted(zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True))
        pairs = [(name, getattr(value, attribute)) for name, attribute in names]
        _write_pairs([(SORTED_ENCODER.encode(name), item) for name, item in pairs if item is not None], out)
    elif isinstance(value, dict):
        _write_pairs([(_key(key), item) for key, item in value.items()], out)
    elif isinstance(value, (list, tuple, set, frozenset)):
        out.append(b"[")
        for number, item in enumerate(value):
            if number:
                out.append(b",")
            _write(item, out)
        out.append(b"]")
    else:
        out.append(SORTED_ENCODER.encode(value))


def _write_pairs(pairs: list[tuple[bytes, Any]], out: list[bytes]) -> None:
    mark = b"{"
    for key, item in pairs:
        out += (mark, key, b":")
        _write(item, out)
        mark = b","
    out.append(b"}" if pairs else b"{}")


def _key(key: Any) -> bytes:
    if isinstance(key, msgspec.Struct):
        return SORTED_ENCODER.encode(key)
    return SORTED_ENCODER.encode(key if isinstance(key, str) else str(key))
