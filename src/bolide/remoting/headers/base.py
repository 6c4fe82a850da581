"""Base class of all header structs: typed extension fields, required or optional, with their protocol names.

The structs omit the fields that 5.x adds to many headers by inheritance (``ns``, ``nsd``, ``bname``, ``oway``, ``lo``;
RpcRequestHeader.java). A broker does not use them, signatures cover them through `Command.ext`, and a client that needs
them adds them to the mapping.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from bolide.remoting.envelope import Int32, Int64

__all__ = ["Header", "Int32", "Int64"]

INT32: Final = "int"
INT64: Final = "long"
BOOL: Final = "bool"
TEXT: Final = "string"

_BOUNDS: Final = {2**31 - 1: INT32, 2**63 - 1: INT64}


class Field:
    """One field, for the lenient reader: attribute, name on the wire, kind, and whether Java requires it."""

    __slots__ = ("attribute", "default", "kind", "name", "required")

    def __init__(self, attribute: str, name: str, kind: str, required: bool, default: Any) -> None:
        self.attribute = attribute
        self.name = name
        self.kind = kind
        self.required = required
        self.default = default


class Header(msgspec.Struct, kw_only=True):
    """Base class of all header structs. ``None`` is Java's null: the field is not sent."""

    fields_of: ClassVar[dict[type[Header], tuple[Field, ...]]] = {}

    @classmethod
    def fields(cls) -> tuple[Field, ...]:
        """Return the fields of this header, computed once per class."""
        known = Header.fields_of.get(cls)
        if known is None:
            known = tuple(_field(info) for info in msgspec.structs.fields(cls))
            Header.fields_of[cls] = known
        return known

    def to_ext(self) -> dict[str, str]:
        """Return the extension fields: numbers in decimal, booleans as true or false, without None
        (RemotingCommand.java)."""
        ext: dict[str, str] = {}
        for field in self.fields():
            value = getattr(self, field.attribute)
            if value is None:
                continue
            if value is True:
                ext[field.name] = "true"
            elif value is False:
                ext[field.name] = "false"
            else:
                ext[field.name] = str(value)
        return ext


def _field(info: msgspec.structs.FieldInfo) -> Field:
    required = info.default is msgspec.NODEFAULT and info.default_factory is msgspec.NODEFAULT
    default = None if info.default is msgspec.NODEFAULT else info.default
    return Field(info.name, info.encode_name, _kind(info.type), required, default)


def _kind(annotation: Any) -> str:
    """Return string, int, long or bool for the type of a field, which may also be None."""
    described = msgspec.inspect.type_info(annotation)
    if isinstance(described, msgspec.inspect.UnionType):
        described = next(part for part in described.types if not isinstance(part, msgspec.inspect.NoneType))
    if isinstance(described, msgspec.inspect.BoolType):
        return BOOL
    if isinstance(described, msgspec.inspect.IntType):
        return _BOUNDS[described.le or 0]
    if isinstance(described, msgspec.inspect.StrType):
        return TEXT
    raise TypeError(f"a header field cannot be of type {annotation!r}; use str, bool, Int32 or Int64")
