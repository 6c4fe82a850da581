"""Spark's types for the fields of a Protobuf message, the same as with Spark's `from_protobuf`."""

from __future__ import annotations

from typing import Any, Final

from bolide.bodies.protobuf import MOST_NESTED, is_many, is_map
from bolide.spark.errors import OptionError

_BY_CPP_TYPE: Final = {
    1: "int",
    2: "bigint",
    3: "bigint",  # uint32
    4: "decimal(20,0)",  # uint64
    5: "double",
    6: "float",
    7: "boolean",
    8: "string",  # enum: its name
}
"""Spark's types by FieldDescriptor.CPPTYPE_…."""
_STRING: Final = 9
_BYTES: Final = 12
"""FieldDescriptor.TYPE_STRING and TYPE_BYTES: both have the C++ type string."""


def protobuf_fields(descriptor: Any) -> dict[str, str]:
    """Return names and types of the fields of a message. Raises `OptionError`."""
    fields = _fields(descriptor, ())
    if not fields:
        raise OptionError(f"the message {descriptor.full_name} has no fields: read body as bytes")
    return fields


def _fields(descriptor: Any, above: tuple[str, ...]) -> dict[str, str]:
    name = descriptor.full_name
    if name in above or len(above) > MOST_NESTED:
        raise OptionError(f"the message {name} contains itself, and Spark has no type for that")
    return {field.name: _kind(field, (*above, name)) for field in descriptor.fields}


def _kind(field: Any, above: tuple[str, ...]) -> str:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_one(key, above)}, {_one(value, above)}>"
    one = _one(field, above)
    return f"array<{one}>" if is_many(field) else one


def _one(field: Any, above: tuple[str, ...]) -> str:
    inner = field.message_type
    if inner is not None:
        if inner.full_name == "google.protobuf.Timestamp":
            return "timestamp"
        fields = _fields(inner, above)
        return f"struct<{', '.join(f'`{name}`: {kind}' for name, kind in fields.items())}>"
    if field.type in (_STRING, _BYTES):
        return "binary" if field.type == _BYTES else "string"
    return _BY_CPP_TYPE[field.cpp_type]
