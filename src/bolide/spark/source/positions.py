"""Start and end positions of a read from options: an end of the queue, a time, offsets, or a group's progress."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from bolide.spark.declared import Option
from bolide.spark.errors import OptionError
from bolide.spark.option_values import moment
from bolide.spark.source.queues import Offsets, Queue, parse_offsets

KINDS: Final = ("earliest", "latest", "group")
TIMES_EXAMPLE: Final = '{"topic": 1767225600000} or {"topic": {"broker": {"0": 1767225600000}}}'

Times: TypeAlias = tuple[tuple[str | Queue, int], ...]
"""(topic or queue, ms) pairs; a queue's time overrides its topic's."""


def forms_of(which: str) -> tuple[str, str, str]:
    """Return the names of the options for the start (`which` is starting) or the end (ending). They exclude each
    other."""
    return f"{which}Offsets", f"{which}Timestamp", f"{which}OffsetsByTimestamp"


_TEXTS: Final = (
    '`earliest`, `latest`, `group` (committed offsets of `group`), or JSON `{"topic": {"broker": {"0": 12}}}`, where '
    "-2 is earliest and -1 latest; queues that are not listed use the default",
    "for all queues, the first message stored at this time or later: ms since 1970, or `2026-03-01T00:00:00Z`",
    'the same by topic or by queue: `{"topic": 1772323200000}`, `{"topic": {"broker": {"0": 1772323200000}}}`',
)
POSITIONS: Final = tuple(
    Option(name, "Start and end", text)
    for names, text in zip(zip(forms_of("starting"), forms_of("ending"), strict=True), _TEXTS, strict=True)
    for name in names
)


@dataclass(frozen=True)
class Position:
    """A start or end position: a kind, and the value for the kind."""

    kind: str
    """earliest, latest, group, timestamp, times or offsets."""
    timestamp: int = 0
    """Time in ms since 1970, for kind timestamp."""
    offsets: tuple[tuple[Queue, int], ...] = ()
    """(queue, offset) pairs, for kind offsets."""
    times: Times = ()
    """Times by topic or queue, for kind times."""

    def given(self) -> Offsets:
        """Return the offsets by queue, for kind offsets."""
        return dict(self.offsets)

    def time_of(self, queue: Queue) -> int | None:
        """Return the time of a queue for the kinds timestamp and times, or None if it is not given."""
        if self.kind == "timestamp":
            return self.timestamp
        times: dict[str | Queue, int] = dict(self.times)
        return times.get(queue, times.get(queue.topic))


def read_position(given: Mapping[str, str], which: str, default: str) -> Position:
    """Parse the options for `which` (starting or ending). Raises `OptionError` if they are invalid."""
    forms = forms_of(which)
    named = [form for form in forms if form.lower() in given]
    if len(named) > 1:
        raise OptionError(f"{' and '.join(named)} exclude each other: keep one")
    text = given[named[0].lower()] if named else default
    if named and named[0] == forms[1]:
        return Position("timestamp", timestamp=moment(forms[1], text))
    if named and named[0] == forms[2]:
        return Position("times", times=_times(text, forms[2]))
    text = text.strip()
    if text in KINDS:
        if which == "ending" and text == "earliest":
            raise OptionError("endingOffsets cannot be earliest: nothing would be read")
        return Position(text)
    if not text.startswith("{"):
        raise OptionError(f"{which}Offsets must be earliest, latest, group or JSON offsets, not {text[:40]!r}")
    return Position("offsets", offsets=tuple(sorted(parse_offsets(text, f"{which}Offsets").items())))


def _times(text: str, where: str) -> Times:
    found: dict[str | Queue, int] = {}
    try:
        nested: Any = json.loads(text)
        for topic, below in nested.items():
            if not isinstance(below, dict):
                found[topic] = _time(below)
                continue
            for broker, queues in below.items():
                for queue_id, time in queues.items():
                    found[Queue(topic, broker, int(queue_id))] = _time(time)
    except (AttributeError, TypeError, ValueError) as error:
        raise OptionError(f"{where} must be JSON such as {TIMES_EXAMPLE}, times being ms: {error}") from None
    return tuple(sorted(found.items(), key=lambda item: str(item[0])))


def _time(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is not a time in ms")
    return value
