"""The file of consumer offsets, consumerOffset.json or lmqConsumerOffset.json: its rows, its text and its reader.

RocketMQ's ConsumerOffsetManager and LmqConsumerOffsetManager; file shape in docs/protocol/store.md 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from bolide.broker.core.rows import Rows, Text
from bolide.layout.names import LMQ_PREFIX
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.json import parse_long

SEPARATOR: Final = "@"
LIGHT_QUEUE: Final = 0


class OffsetsFile:
    """The encoded rows of the table. `committed` and `pulled` return the offsets of a `topic@group`, or None."""

    def __init__(
        self,
        lmq: bool,
        committed: Callable[[str], dict[int, int] | None],
        pulled: Callable[[str], dict[int, int] | None],
    ) -> None:
        self._lmq = lmq
        self._committed = committed
        self._rows = Rows(lambda key: _encoded(committed(key)))
        self._light_rows = Rows(self._light_row)
        self.pull_rows = Rows(lambda key: _encoded(pulled(key)))
        """The offsets of the next pulls; every pull touches one."""

    def touch(self, key: str) -> None:
        """Note that a committed offset of a group in a topic changed."""
        if self._lmq and key.partition(SEPARATOR)[2].startswith(LMQ_PREFIX):
            self._light_rows.touch(key)
        else:
            self._rows.touch(key)

    def finish(self) -> None:
        """Encode all rows that changed."""
        for rows in (self._rows, self._light_rows, self.pull_rows):
            rows.finish()

    def begin(self) -> None:
        """Start a write of the file. It contains the table as of now."""
        for rows in (self._rows, self._light_rows, self.pull_rows):
            rows.begin()

    def step(self, most: int) -> bool:
        """Encode at most `most` rows. Return True once the text is complete."""
        return self._rows.step(most) and self._light_rows.step(most) and self.pull_rows.step(most)

    def text(self, counter: int, timestamp: int, more: Mapping[str, bytes] | None = None) -> Text:
        """Return the file's text with this data version, and with these members after it."""
        text = Text()
        text.member("dataVersion", encode_body({"counter": counter, "stateVersion": 0, "timestamp": timestamp}))
        for name, value in (more or {}).items():
            text.member(name, value)
        if self._lmq:
            text.rows("lmqOffsetTable", self._light_rows.encoded())
        text.rows("offsetTable", self._rows.encoded())
        text.rows("pullOffsetTable", self.pull_rows.encoded())
        return text

    def _light_row(self, key: str) -> bytes:
        queues = self._committed(key)
        return b"" if queues is None else b"%d" % queues.get(LIGHT_QUEUE, 0)


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
        version = _object(content, "dataVersion")
        self.table: dict[str, dict[int, int]] = table
        self.pulls: dict[str, dict[int, int]] = pulls
        self.counter, self.timestamp = int(version.get("counter", 0)), int(version.get("timestamp", 0))


def offsets_of(queues: Any) -> dict[int, int]:
    """Return the offsets by queue id in JSON. Raises `ValueError` if it is not such a table."""
    if not isinstance(queues, dict):
        raise ValueError("consumerOffset.json: a table of queues is not a JSON object")
    return {int(queue_id): int(offset) for queue_id, offset in queues.items()}


def _object(content: dict[Any, Any], name: str) -> dict[Any, Any]:
    value = content.get(name)
    return value if isinstance(value, dict) else {}


def _encoded(queues: dict[int, int] | None) -> bytes:
    return b"" if queues is None else msgspec.json.encode(queues)
