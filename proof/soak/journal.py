"""What a client process notes for the program that judges: one record an event, in a file that both have open."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from proof.soak.streams import NUMBERS, READERS, STREAMS, Reader, Stream

RECORD: Final = struct.Struct(">BBBxIqi")
NOBODY: Final = 255
_READER_NUMBERS = {reader.name: number for number, reader in enumerate(READERS)}


class What(Enum):
    """What happened to a message."""

    ACKNOWLEDGED = 1
    FAILED = 2
    """No answer, or another one: it may be stored or not."""
    RECALLED = 3
    """The broker has acknowledged its recall."""
    CONSUMED = 4


@dataclass(frozen=True, slots=True)
class Event:
    """One record. `reader` is None for what a sender notes; `late_ms` is how long after its due time it came."""

    what: What
    stream: Stream
    number: int
    at_ms: int
    reader: Reader | None = None
    late_ms: int = 0


class Journal:
    """The writing side. Each event is with the kernel when `note` returns."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def note(self, event: Event) -> None:
        """Append an event."""
        reader = NOBODY if event.reader is None else _READER_NUMBERS[event.reader.name]
        late = max(min(event.late_ms, (1 << 31) - 1), -(1 << 31))
        self._file.write(RECORD.pack(event.what.value, reader, NUMBERS[event.stream], event.number, event.at_ms, late))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class JournalReader:
    """The reading side: follows a file that grows, and that may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def new(self) -> Iterator[Event]:
        """The events since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            data = file.read()
        whole = len(data) - len(data) % RECORD.size
        self._at += whole
        for what, reader, stream, number, at_ms, late_ms in RECORD.iter_unpack(data[:whole]):
            who = None if reader == NOBODY else READERS[reader]
            yield Event(What(what), STREAMS[stream], number, at_ms, who, late_ms)
