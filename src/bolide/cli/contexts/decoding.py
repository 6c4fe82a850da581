"""Options for decoding bodies: a schema file, or a schema registry."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from bolide.errors import ArgumentError

if TYPE_CHECKING:
    from bolide.bodies.decoding import Decode
    from bolide.bodies.registry import RegistryAddress

REGISTRY_VARIABLE: Final = "BOLIDE_REGISTRY"
USER_VARIABLE: Final = "BOLIDE_REGISTRY_USER"
PASSWORD_VARIABLE: Final = "BOLIDE_REGISTRY_PASSWORD"
CERT_VARIABLE: Final = "BOLIDE_REGISTRY_CERT_PATH"

RegistryOption = typer.Option(
    "",
    envvar=REGISTRY_VARIABLE,
    help="Schema registry that bodies name their schema in, http://HOST:PORT; user and password are in"
    f" {USER_VARIABLE} and {PASSWORD_VARIABLE}.",
)
SchemaOption = typer.Option(
    None, help="Decode bodies by this file: an Avro schema (.avsc) or a Protobuf descriptor set (.desc)."
)
MessageOption = typer.Option("", help="With --schema FILE.desc: the full name of the Protobuf message.")


def registry_of(address: str) -> RegistryAddress | None:
    """Return the registry at an address with the credentials of the environment, or None without an address."""
    if not address:
        return None
    from bolide.bodies.registry import RegistryAddress

    get = os.environ.get
    return RegistryAddress(address, get(USER_VARIABLE, ""), get(PASSWORD_VARIABLE, ""), get(CERT_VARIABLE, ""))


def decoder_of(schema: Path | None, message: str, registry: str) -> Decode | None:
    """Return a decoder for the schema file, else for the registry, or None without both. Raises `ArgumentError` or
    `RegistryError` if the options or the file are invalid."""
    if message and schema is None:
        raise ArgumentError("--message needs --schema FILE.desc")
    if schema is not None:
        from bolide.bodies.decoding import decoder_of_file
        from bolide.bodies.registry import SchemaError

        try:
            return decoder_of_file(schema, message)
        except SchemaError as error:
            raise ArgumentError(f"--schema: {error}") from None
    address = registry_of(registry)
    if address is None:
        return None
    from bolide.bodies.decoding import RegistryDecoder
    from bolide.bodies.registry_address import registry_at

    return RegistryDecoder(registry_at(address)).decode
