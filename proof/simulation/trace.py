"""What happened in a simulation, one line an event, and a digest over all of it.

Two runs are the same run if their digests are equal: every line counts, also those that are not kept. A line is

    12.345678 broker-a  disk    write_at /store/commitlog/00000000000000000000 4096+220 8d2f00aa

the time in seconds, the process, the kind of event, and the event. Bytes appear as their length and CRC-32.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Iterator
from typing import Final, TextIO

KEPT: Final = 4000
"""Lines that a trace keeps in memory, unless it is told to keep another number."""
QUIET: Final = frozenset({"disk", "packet", "turn"})
"""Kinds with most of the lines; a reader looks at the others first."""


class Trace:
    """The events of one run. `out` gets every line as it happens."""

    def __init__(self, kept: int = KEPT, out: TextIO | None = None) -> None:
        self.events = 0
        self._lines: deque[tuple[float, str, str, str]] = deque(maxlen=kept)
        self._notable: deque[tuple[float, str, str, str]] = deque(maxlen=kept)
        self._digest = hashlib.blake2b(digest_size=16)
        self._out = out

    def note(self, now: float, process: str, kind: str, text: str) -> None:
        """One event."""
        self.events += 1
        self._digest.update(f"{now:.9f} {process} {kind} {text}\n".encode())
        event = (now, process, kind, text)
        self._lines.append(event)
        if kind not in QUIET:
            self._notable.append(event)
        if self._out is not None:
            self._out.write(_line(event) + "\n")

    def count(self, text: str) -> None:
        """Something for the digest alone."""
        self._digest.update(text.encode())

    @property
    def digest(self) -> str:
        """32 hexadecimal digits that stand for the whole run so far."""
        return self._digest.hexdigest()

    def lines(self) -> Iterator[str]:
        """The newest lines, of all kinds."""
        return map(_line, self._lines)

    def story(self) -> Iterator[str]:
        """The newest lines that a person reads first: processes, faults, connections, log messages."""
        return map(_line, self._notable)


def _line(event: tuple[float, str, str, str]) -> str:
    now, process, kind, text = event
    return f"{now:12.6f} {process:<10} {kind:<7} {text}"


def summary(data: bytes | bytearray | memoryview) -> str:
    """Bytes in a trace: their length and CRC-32."""
    return f"{len(data)} {zlib.crc32(data):08x}"
