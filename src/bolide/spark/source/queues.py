"""Queues and their offsets, and the JSON format of offsets in options and checkpoints.

The types are picklable, so that partitions can contain them, and planning is testable without a session. The JSON
format is `{"topic": {"broker": {"0": 12}}}`. In options, -2 is the earliest offset of a queue and -1 the latest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from bolide.spark.errors import OptionError

T = TypeVar("T")

EARLIEST: Final = -2
LATEST: Final = -1
EXAMPLE: Final = '{"topic": {"broker": {"0": 12}}}'


class Queue(NamedTuple):
    """A queue of a topic on a broker (RocketMQ's MessageQueue)."""

    topic: str
    broker: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.broker}:{self.queue_id}"


Offsets: TypeAlias = dict[Queue, int]
"""Next offset to read, by queue."""


def to_json(offsets: Mapping[Queue, int]) -> dict[str, dict[str, dict[str, int]]]:
    """Return nested objects with sorted keys, because Spark compares offsets as text."""
    return nested(offsets)


def nested(values: Mapping[Queue, T]) -> dict[str, dict[str, dict[str, T]]]:
    """Return values by queue in the format of `to_json`."""
    found: dict[str, dict[str, dict[str, T]]] = {}
    for queue in sorted(values):
        brokers = found.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker, {})[str(queue.queue_id)] = values[queue]
    return found


def from_json(nested: Mapping[str, Any], where: str) -> Offsets:
    """Return the offsets of a `to_json` result. Raises `OptionError` with the name `where` if it is invalid."""
    offsets: Offsets = {}
    try:
        for topic, brokers in nested.items():
            for broker, queues in brokers.items():
                for queue_id, offset in queues.items():
                    if isinstance(offset, bool) or not isinstance(offset, int) or offset < EARLIEST:
                        raise ValueError(f"{offset!r} is not an offset")
                    offsets[Queue(topic, broker, int(queue_id))] = offset
    except (AttributeError, ValueError) as error:
        why = error if isinstance(error, ValueError) else "offsets are by topic, broker and queue"
        raise OptionError(
            f"{where} must be JSON such as {EXAMPLE}: {why}; write -2 for the earliest and -1 for the latest offset"
        ) from None
    return offsets


def parse_offsets(text: str, where: str) -> Offsets:
    """Parse the offsets of the option `where`. Raises `OptionError` if they are invalid."""
    try:
        nested = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{where} is not JSON ({error}); write {EXAMPLE}") from None
    if not isinstance(nested, dict):
        raise OptionError(f"{where} must be a JSON object such as {EXAMPLE}, not {text[:40]!r}")
    return from_json(nested, where)
