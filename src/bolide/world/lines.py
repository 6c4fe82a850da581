"""Writes lines in a thread, because a full pipe, a stopped terminal or a hung disk can block a writer forever."""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Generic, TextIO, TypeVar

from bolide.world.contract import World
from bolide.world.real import THE_WORLD

T = TypeVar("T")
WAITING: Final = 10_000
"""Maximum number of pending lines. Further lines are dropped and counted."""
PATIENCE_S: Final = 2.0
"""Maximum time in seconds to wait for the last lines when a process exits."""


class Lines(Generic[T]):
    """Passes lines to a thread. `take` writes one line and may block. A line is dropped if `take` raises `OSError`.

    `missing` returns the line that replaces the given number of dropped lines. `put` is thread-safe.
    """

    def __init__(
        self, name: str, take: Callable[[T], object], missing: Callable[[int], T], world: World = THE_WORLD
    ) -> None:
        self.dropped = 0
        """Number of lines dropped so far."""
        self._take = take
        self._missing = missing
        self._waiting = 0
        self._gap = 0
        self._lock = threading.RLock()  # garbage collection under the lock may run a destructor that logs
        self._worker = world.worker(name)

    def put(self, line: T) -> None:
        """Queue one line, or drop it if too many are pending. Never blocks on the output."""
        with self._lock:
            if self._waiting >= WAITING:
                self._gap += 1
                self.dropped += 1
                return
            self._give_note()
            self._give(line)

    def close(self, patience: float = PATIENCE_S) -> bool:
        """Write the pending lines and stop the thread. Return False if that takes more than `patience` seconds."""
        return self._worker.stop(patience)

    def _give(self, line: T) -> None:
        self._waiting += 1
        self._worker.give(lambda: self._out(line))

    def _give_note(self) -> None:
        if self._gap:
            gap, self._gap = self._gap, 0
            self._give(self._missing(gap))

    def _out(self, line: T) -> None:
        try:
            self._take(line)
        except OSError:
            self.dropped += 1
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                self._give_note()


class TextOut:
    """Writes text to the descriptor of a stream, so that a blocked thread holds no lock that Python needs to exit."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._number: int | None = None
        with suppress(OSError, ValueError, AttributeError):  # a stream in memory has no descriptor
            self._number = stream.fileno()

    def write(self, text: str) -> None:
        """Write one line. Blocks until it is written. Raises `OSError` if the reader has closed its end."""
        if self._number is None:
            self._stream.write(f"{text}\n")
            self._stream.flush()
            return
        rest = memoryview(f"{text}\n".encode(self._encoding, "backslashreplace"))
        while rest:
            try:
                rest = rest[os.write(self._number, rest) :]
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                select.select([], [self._number], [])


class LinesHandler(logging.Handler):
    """A logging handler that writes lines to a stream, usually standard error, without blocking the caller."""

    def __init__(self, stream: TextIO, world: World = THE_WORLD) -> None:
        super().__init__()
        self.lines: Lines[str] = Lines("log", TextOut(stream).write, self._note, world)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line."""
        self.lines.put(formatted(self, record))

    def _note(self, dropped: int) -> str:
        return self.format(dropped_note(dropped))

    def close(self) -> None:
        """Write the pending lines, within `PATIENCE_S`. Called by `logging` when the process exits."""
        self.lines.close()
        super().close()


def formatted(handler: logging.Handler, record: logging.LogRecord) -> str:
    """Return the line of a record. Unlike `logging`, prints no error for an invalid record: that could block."""
    try:
        return handler.format(record)
    except Exception as error:  # an invalid logging call must not fail its caller
        return f"a line of {record.name} cannot be made of {record.msg!r}: {error}"


def dropped_note(dropped: int) -> logging.LogRecord:
    """Return the record that replaces dropped lines."""
    told = "%d log lines were dropped here, because they could not be written in time"
    return logging.LogRecord("bolide.node", logging.WARNING, "", 0, told, (dropped,), None)


@contextmanager
def lines_to(stream: TextIO | None, world: World = THE_WORLD) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line to a stream, or drops it if `stream` is None. The exit waits up to
    `PATIENCE_S` for pending lines."""
    if stream is None:
        yield lambda line: None
        return
    lines: Lines[str] = Lines("output", TextOut(stream).write, "({} lines were dropped here)".format, world)
    try:
        yield lines.put
    finally:
        lines.close()
