"""Avro bodies as people read them: the data of a topic by the schema that an operator gives for it.

A body is one datum without a header, as the Spark source reads it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from bolide.bodies.avro import AvroDecoder, parsed_avro, printable
from bolide.bodies.registry import SchemaError, UnfitBody
from bolide.client.messages.received import ReceivedMessage
from bolide.console.render import as_json
from bolide.errors import ConfigError
from bolide.layout import property_names as names

SUFFIX: Final = ".avsc"
MOST_SCHEMA: Final = 1 << 20
"""Bytes of a schema file."""


class AvroSchemas:
    """The schemas of some topics."""

    def __init__(self, of: dict[str, Any] | None = None) -> None:
        """`of`: topic -> schema, as fastavro has parsed it."""
        self._of = {} if of is None else of

    @staticmethod
    def read(folder: Path) -> AvroSchemas:
        """The files TOPIC.avsc of a folder. Raises `ConfigError` when one is no schema, or there is none."""
        try:
            files = sorted(folder.glob(f"*{SUFFIX}"))
            schemas = {file.name.removesuffix(SUFFIX): _parsed(file) for file in files}
        except OSError as error:
            raise ConfigError(f"--avro {folder} cannot be read: {error.strerror}") from None
        if not schemas:
            raise ConfigError(f"--avro {folder} has no file TOPIC{SUFFIX}")
        return AvroSchemas(schemas)

    def of(self, message: ReceivedMessage) -> Any:
        """The schema of this message's topic, of a retry or a dead letter that of the topic it was sent to; or None."""
        found = message.properties
        topics = (message.record.topic, found.get(names.DLQ_ORIGIN_TOPIC), found.get(names.RETRY_TOPIC))
        return next((self._of[topic] for topic in topics if topic in self._of), None)


def avro_text(schema: Any, body: bytes) -> str:
    """The datum as JSON. Raises `ValueError` when the body is not one."""
    try:
        return as_json(AvroDecoder(schema).decode(body), printable)
    except UnfitBody as error:
        raise ValueError(f"{error}: shown as text") from None


def _parsed(file: Path) -> Any:
    if file.stat().st_size > MOST_SCHEMA:
        raise ConfigError(f"{file} is longer than {MOST_SCHEMA} bytes")
    try:
        return parsed_avro(file.read_text("utf-8"))
    except (SchemaError, UnicodeDecodeError) as error:
        raise ConfigError(f"--avro: {file} cannot be used: {error}") from None
