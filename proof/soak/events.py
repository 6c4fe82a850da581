"""Events that client processes note in their journals: outcomes of sends, and deliveries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from proof.kit.journal import Entry
from proof.soak.streams import READERS, Reader, Stream

_READERS = {reader.name: reader for reader in READERS}


class What(Enum):
    """Kinds of events."""

    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    """The response failed or is missing: the message may be stored."""
    RECALLED = "recalled"
    """The broker has acknowledged its recall."""
    CONSUMED = "consumed"


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `reader` is None for events of a sender; `late_ms` is the delay after the due time of the message."""

    what: What
    stream: Stream
    number: int
    reader: Reader | None = None
    late_ms: int = 0

    @property
    def fields(self) -> tuple[str, str, int, str | None, int]:
        """The event as a line of a journal."""
        reader = None if self.reader is None else self.reader.name
        return self.what.value, self.stream.value, self.number, reader, self.late_ms


def events_of(entries: Iterable[Entry]) -> Iterator[Event]:
    """Read the lines of a journal."""
    for _, what, stream, number, reader, late_ms in entries:
        yield Event(What(what), Stream(stream), number, _READERS.get(reader), late_ms)
