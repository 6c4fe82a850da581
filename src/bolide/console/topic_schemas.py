"""Schemas that decode bodies for display: from a folder by topic, or from a registry by schema id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bolide.bodies.decoding import AVRO_SUFFIX, PROTOBUF_SUFFIX, Decode, RegistryDecoder, decoder_of_file
from bolide.bodies.registry import RegistryAddress, RegistryError, SchemaError
from bolide.bodies.registry_address import registry_at
from bolide.client.messages.received import ReceivedMessage
from bolide.errors import ConfigError
from bolide.layout import property_names as names

SUFFIXES: Final = (AVRO_SUFFIX, PROTOBUF_SUFFIX)


@dataclass(frozen=True, slots=True)
class BodySchema:
    """A decoder for bodies."""

    decode: Decode
    certain: bool
    """Whether an operator configured this schema for the topic. With a registry, any body may have a schema or none."""


class TopicSchemas:
    """Finds the schema of a message."""

    def __init__(self, of: dict[str, Decode] | None = None, registry: Decode | None = None) -> None:
        """`of` contains decoders by topic. `registry` decodes the bodies of all other topics."""
        self._of = {} if of is None else of
        self._registry = registry

    @staticmethod
    def read(folder: Path | None, registry: RegistryAddress | None = None) -> TopicSchemas:
        """Load TOPIC.avsc and TOPIC.desc of a folder. Raises `ConfigError` if one is invalid or none exists."""
        found: dict[str, Decode] = {}
        if folder is not None:
            try:
                files = sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES)
                found = {file.stem: decoder_of_file(file) for file in files}
            except OSError as error:
                raise ConfigError(f"--schemas {folder} cannot be read: {error.strerror}") from None
            except SchemaError as error:
                raise ConfigError(f"--schemas: {error}") from None
            if not found:
                raise ConfigError(f"--schemas {folder} has no file TOPIC{AVRO_SUFFIX} or TOPIC{PROTOBUF_SUFFIX}")
        try:
            asked = None if registry is None else RegistryDecoder(registry_at(registry)).decode
        except RegistryError as error:
            raise ConfigError(f"--registry: {error}") from None
        return TopicSchemas(found, asked)

    def of(self, message: ReceivedMessage) -> BodySchema | None:
        """Return the schema for the original topic of a message, retry or dead letter, or None if there is none."""
        found = message.properties
        for topic in (message.record.topic, found.get(names.DLQ_ORIGIN_TOPIC), found.get(names.RETRY_TOPIC)):
            if topic in self._of:
                return BodySchema(self._of[topic], True)
        return None if self._registry is None else BodySchema(self._registry, False)
