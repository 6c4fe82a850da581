"""The protocol of schema registries, and the schemas that they contain.

`Registry` is a protocol: a class with its two methods supports another kind of registry. If the class also has `frame`,
bodies can be written for the registry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from bolide.errors import LocalError

AVRO: Final = "avro"
JSON: Final = "json"
PROTOBUF: Final = "protobuf"


class RegistryError(LocalError):
    """A registry cannot be reached, rejects the user, or returns an invalid response."""


class SchemaError(ValueError):
    """A schema is invalid or not supported. The text is the reason."""


class UnfitBody(ValueError):
    """A body does not have the expected format. The text is the reason, such as `it is not JSON`."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema in a registry."""

    id: int | str
    """Id of the schema in bodies."""
    kind: str
    """avro, json or protobuf."""
    text: str
    """JSON; for Protobuf the base64 of a serialized FileDescriptorProto."""
    references: tuple[tuple[str, str], ...] = ()
    """Name and text of each referenced schema, dependencies first."""


@dataclass(frozen=True)
class FramedBody:
    """A body split into schema and payload."""

    schema: RegisteredSchema
    """Schema of the writer."""
    payload: bytes
    message: tuple[int, ...] = (0,)
    """Protobuf: position of the message in the schema's file, and of each nested message in its outer message."""


class Registry(Protocol):
    """A schema registry, and its format of schema ids in bodies."""

    def read(self, body: bytes) -> FramedBody:
        """Split a body into schema and payload. Raises `UnfitBody` if it has no valid schema id, and `RegistryError` if
        the registry fails."""

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the newest schema of a subject. Raises `RegistryError` if it does not exist or the registry fails."""


@runtime_checkable
class WritableRegistry(Registry, Protocol):
    """A registry for which bodies can be written."""

    def frame(self, body: FramedBody) -> bytes:
        """Return a body with the id of its schema, the reverse of `read`."""


@dataclass(frozen=True)
class RegistryAddress:
    """Address and credentials of a registry. Spark ships them to executors."""

    address: str
    """`http://…` or `https://…` of a registry with Confluent's API, or `package.module:factory`."""
    user: str = ""
    password: str = ""
    cert_path: str = ""
    """PEM file of the certificate authorities for an https registry, or "" for the system's authorities."""

    @property
    def shown(self) -> str:
        """The address without user and password."""
        return re.sub(r"^(\w+://)?.*@", r"\1", self.address)

    def __repr__(self) -> str:
        return f"RegistryAddress({self.shown!r})"  # never the password
