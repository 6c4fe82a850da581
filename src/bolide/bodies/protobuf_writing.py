"""Encodes values as Protobuf messages, the reverse of `protobuf.plain_of`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from bolide.bodies.protobuf import MOST_NESTED, ProtobufTypes, is_many, is_map
from bolide.bodies.registry import SchemaError, UnfitBody

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_Fill = Callable[[Any, Any], None]
"""Sets the fields of a message to values."""


class ProtobufEncoder:
    """Encodes messages of one type."""

    def __init__(self, types: ProtobufTypes, descriptor: Any) -> None:
        """Raises `SchemaError` if the type contains itself."""
        self._class = types.class_of(descriptor)
        self._name: str = descriptor.full_name
        self._fill = _message(descriptor, (), {})

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Return a message with these fields; None leaves a field unset. Raises `UnfitBody` if a value does not fit its
        field, if a list or a map contains null, or if two fields of a oneof are set."""
        message = self._class()
        try:
            self._fill(message, values)
            data: bytes = message.SerializeToString(deterministic=True)
        except UnfitBody:
            raise
        except Exception as error:  # errors of Protobuf's runtimes have no common base class
            raise UnfitBody(f"{self._name} does not accept it ({type(error).__name__}: {error})") from None
        return data


def _message(descriptor: Any, above: tuple[str, ...], made: dict[str, _Fill]) -> _Fill:
    """Return the function that fills messages of a type. `made` caches the functions of nested types, which may occur
    several times."""
    name = descriptor.full_name
    if name in above or len(above) > MOST_NESTED:
        raise SchemaError(f"{name} contains itself, which is not a column's type")
    if name == "google.protobuf.Timestamp":
        return _set_moment
    if name in made:
        return made[name]
    setters = {field.name: _setter(field, (*above, name), made) for field in descriptor.fields}
    one_ofs = [(group.name, [field.name for field in group.fields]) for group in descriptor.oneofs]

    def fill(message: Any, values: Mapping[str, Any]) -> None:
        for key, value in values.items():
            if value is not None:
                setters[key](message, value)
        for group, members in one_ofs:
            if sum(values.get(member) is not None for member in members) > 1:
                raise UnfitBody(f"it sets several fields of {group}: a {name} has only one")

    made[name] = fill
    return fill


def _setter(field: Any, above: tuple[str, ...], made: dict[str, _Fill]) -> Callable[[Any, Any], None]:
    """Return the function that sets a field of a message to a value."""
    name = field.name
    if is_map(field):
        return _map_setter(field, above, made)
    if field.message_type is not None:
        fill = _message(field.message_type, above, made)

        def set_messages(message: Any, values: list[Any]) -> None:
            for value in values:
                fill(getattr(message, name).add(), _present(value, name))

        def set_message(message: Any, value: Any) -> None:
            inner = getattr(message, name)
            inner.SetInParent()  # marks it as set, even if none of its fields is
            fill(inner, value)

        return set_messages if is_many(field) else set_message
    plain = _plain_value(field)
    if is_many(field):
        return lambda message, values: getattr(message, name).extend(plain(_present(value, name)) for value in values)
    return lambda message, value: setattr(message, name, plain(value))


def _map_setter(field: Any, above: tuple[str, ...], made: dict[str, _Fill]) -> Callable[[Any, Any], None]:
    name = field.name
    of_key = _plain_value(field.message_type.fields_by_name["key"])
    inner = field.message_type.fields_by_name["value"]
    if inner.message_type is not None:
        fill = _message(inner.message_type, above, made)

        def set_messages(message: Any, values: Mapping[Any, Any]) -> None:
            found = getattr(message, name)
            for key, value in values.items():
                entry = found[of_key(key)]
                fill(entry, _present(value, name))

        return set_messages
    of_value = _plain_value(inner)

    def set_values(message: Any, values: Mapping[Any, Any]) -> None:
        found = getattr(message, name)
        for key, value in values.items():
            found[of_key(key)] = of_value(_present(value, name))

    return set_values


def _plain_value(field: Any) -> Callable[[Any], Any]:
    """Return the function that converts a value for a scalar field."""
    if field.enum_type is not None:
        numbers: dict[str, int] = {value.name: value.number for value in field.enum_type.values}

        def number(text: str) -> int:
            found = numbers.get(text)
            if found is not None:
                return found
            if text.lstrip("-").isdecimal():  # decoding returns unknown numbers in this form
                return int(text)
            raise UnfitBody(f"its field {field.name} is {text!r}, not one of {', '.join(numbers)}")

        return number
    return _whole


def _whole(value: Any) -> Any:
    """Convert the decimals of unsigned integers."""
    return int(value) if isinstance(value, Decimal) else value


def _present(value: Any, name: str) -> Any:
    if value is None:
        raise UnfitBody(f"its field {name} contains null, which Protobuf cannot represent")
    return value


def _set_moment(message: Any, value: datetime) -> None:
    microseconds = (value - _EPOCH) // timedelta(microseconds=1)
    message.seconds, rest = divmod(microseconds, 1_000_000)
    message.nanos = rest * 1000
