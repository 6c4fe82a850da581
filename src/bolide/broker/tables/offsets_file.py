"""The file of consumer offsets, consumerOffset.json or lmqConsumerOffset.json: its rows and its reader.

RocketMQ's ConsumerOffsetManager and LmqConsumerOffsetManager; file shape in docs/protocol/store.md 10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bolide.broker.core.data_version import DataVersion
from bolide.remoting.json import parse_long

SEPARATOR: Final = "@"
LIGHT_QUEUE: Final = 0
FROM_SLAVE: Final = "bolideSlave"
"""Member of a slave's file: groups may have committed offsets that its log has not reached."""


class StoredOffsets:
    """Content of a file written by Java (unquoted queue ids) or Bolide. Raises `ValueError` if it is neither."""

    def __init__(self, data: bytes) -> None:
        content = parse_long(data)
        if not isinstance(content, dict):
            raise ValueError("consumerOffset.json is not a JSON object")
        table = {str(key): offsets_of(queues) for key, queues in _object(content, "offsetTable").items()}
        pulls = {str(key): offsets_of(queues) for key, queues in _object(content, "pullOffsetTable").items()}
        for key, offset in _object(content, "lmqOffsetTable").items():
            table[str(key)] = {LIGHT_QUEUE: int(offset)}
        self.table: dict[str, dict[int, int]] = table
        self.pulls: dict[str, dict[int, int]] = pulls
        self.version = version_of(_object(content, "dataVersion"))
        self.from_slave: bool = content.get(FROM_SLAVE) is True


def offsets_of(queues: Any) -> dict[int, int]:
    """Return the offsets by queue id from decoded JSON. Raises `ValueError` if it is not such a table."""
    if not isinstance(queues, dict):
        raise ValueError("consumerOffset.json: a table of queues is not a JSON object")
    return {int(queue_id): int(offset) for queue_id, offset in queues.items()}


def _object(content: dict[Any, Any], name: str) -> dict[Any, Any]:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def version_of(fields: Mapping[str, Any]) -> DataVersion:
    """Return a stored or received version with state version 0. Raises `ValueError` or `TypeError` for an invalid
    number."""
    return DataVersion(int(fields.get("timestamp") or 0), int(fields.get("counter") or 0))


def encoded(queues: dict[int, int] | None) -> bytes:
    """Return the offsets of a group in a topic as a row, or b"" for None."""
    return b"" if queues is None else msgspec.json.encode(queues)
