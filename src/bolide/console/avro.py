"""Avro bodies as people read them: the data of a topic by the schema that an operator gives for it.

A body is one datum without a header, as the Spark source reads it. fastavro decodes it, in compiled code that nothing
can stop: a schema whose data may nest as deeply as a body says, or that counts items of no bytes, is refused.
"""

from __future__ import annotations

import io
import json
from datetime import date, time
from pathlib import Path
from typing import Any, Final

from bolide.client.messages.received import ReceivedMessage
from bolide.console.render import as_json
from bolide.errors import ConfigError
from bolide.layout import property_names as names

SUFFIX: Final = ".avsc"
MOST_SCHEMA: Final = 1 << 20
"""Bytes of a schema file."""
_CONTAINERS: Final = {"array": "items", "map": "values"}


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
    from fastavro import schemaless_reader

    stream = io.BytesIO(body)
    try:
        datum: Any = schemaless_reader(stream, schema, None)
        if stream.tell() == len(body):
            return as_json(datum, _plain)
    except Exception as error:  # fastavro's errors have no common base class
        raise ValueError(f"this is not a datum of the topic's schema ({type(error).__name__}): shown as text") from None
    raise ValueError(f"{len(body) - stream.tell()} bytes are left after a datum of the topic's schema: shown as text")


def _parsed(file: Path) -> Any:
    try:
        from fastavro import parse_schema
    except ImportError:
        raise ConfigError("--avro needs fastavro: pip install fastavro") from None
    if file.stat().st_size > MOST_SCHEMA:
        raise ConfigError(f"{file} is longer than {MOST_SCHEMA} bytes")
    try:
        schema = json.loads(file.read_text("utf-8"))
        parsed = parse_schema(schema, named_schemas={})
    except Exception as error:  # as above
        raise ConfigError(f"{file} is not an Avro schema: {type(error).__name__}: {error}") from None
    _check(parsed, str(file), {}, ())
    return parsed


def _plain(value: Any) -> str:
    """A value that JSON has no form for: bytes in hexadecimal digits, times as ISO 8601, decimals as they are read."""
    if isinstance(value, bytes):
        return value.hex(" ")
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value)


def _check(schema: Any, file: str, known: dict[str, bool], above: tuple[str, ...]) -> bool:
    """Whether a datum may take no bytes. Raises `ConfigError` for what a body could turn against the console."""
    if isinstance(schema, list):
        for one in schema:
            _check(one, file, known, above)
        return False  # the number of the branch
    if isinstance(schema, str):
        if schema in above:
            raise ConfigError(f"{file}: {schema} contains itself, so a body could nest without end")
        return known.get(schema, schema == "null")
    kind = schema["type"]
    if kind in ("record", "error"):
        name = schema["name"]
        fields = [_check(field["type"], file, known, (*above, name)) for field in schema["fields"]]
        known[name] = all(fields)
        return known[name]
    if kind in _CONTAINERS:
        empty = _check(schema[_CONTAINERS[kind]], file, known, above)
        if empty and kind == "array":
            raise ConfigError(f"{file} has an array of items of no bytes, so a body could hold any number of them")
        return False
    if kind in ("fixed", "enum"):
        known[schema["name"]] = kind == "fixed" and schema["size"] == 0
        return known[schema["name"]]
    return _check(kind, file, known, above)
