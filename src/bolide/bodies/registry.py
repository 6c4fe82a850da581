"""What a schema registry does, and the schemas that it holds.

`Registry` is a protocol: a registry of another kind is a class with its three methods.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol

from bolide.errors import LocalError

AVRO: Final = "avro"
JSON: Final = "json"
PROTOBUF: Final = "protobuf"


class RegistryError(LocalError):
    """A registry cannot be reached, refuses the user, or answers something else than a schema."""


class SchemaError(ValueError):
    """A text is not a schema that is supported here; says why."""


class UnfitBody(ValueError):
    """A body does not have the form that it should have; its text is a reason, such as `it is no Avro datum`."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as a registry holds it."""

    id: int | str
    """What bodies name the schema by."""
    kind: str
    """avro, json or protobuf."""
    text: str
    """JSON; for Protobuf the base64 of a serialized FileDescriptorProto."""
    references: tuple[tuple[str, str], ...] = ()
    """Name and text of each schema that this one refers to, after those that it refers to itself."""


@dataclass(frozen=True)
class FramedBody:
    """A body taken apart."""

    schema: RegisteredSchema
    """The schema with which the body was written."""
    payload: bytes
    message: tuple[int, ...] = (0,)
    """Protobuf: which message of the schema's file it is, by its position, and by that within the outer message."""


class Registry(Protocol):
    """Holds schemas, and knows how bodies name them."""

    def read(self, body: bytes) -> FramedBody:
        """Takes a body apart. Raises UnfitBody if it names no schema, RegistryError if the registry cannot say."""

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject. Raises RegistryError."""

    def frame(self, schema: RegisteredSchema, payload: bytes, message: tuple[int, ...] = (0,)) -> bytes:
        """The reverse of `read`: a body that names its schema."""


@dataclass(frozen=True)
class RegistryAddress:
    """Where a registry is and who asks; plain data, which Spark ships to executors."""

    address: str
    """`http://…` or `https://…` of a registry with Confluent's API, or `package.module:factory`."""
    user: str = ""
    password: str = ""
    cert_path: str = ""
    """PEM file of the authorities that an https registry's certificate is checked against; empty: the system's."""

    @property
    def shown(self) -> str:
        """The address without a user and password in it."""
        return re.sub(r"^(\w+://)?.*@", r"\1", self.address)

    def __repr__(self) -> str:
        return f"RegistryAddress({self.shown!r})"  # never the password
