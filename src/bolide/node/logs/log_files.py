"""Log file in addition to standard error, rotated by size and age and written by a thread.

A slow disk blocks the thread (`world/lines.py`), not the server. If the file cannot be written, standard error reports
it once.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from datetime import datetime
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from typing import Final

from bolide.errors import ConfigError
from bolide.node.logs.log_options import LogOptions
from bolide.world.home import expanded
from bolide.world.lines import Lines, dropped_note, formatted

log = logging.getLogger("bolide.node")

_HOUR: Final = 3600
_NO_PERIOD: Final = -1


class RotatedFile(RotatingFileHandler):
    """A log file and `count` older files, of which path.1 is the newest. The file is locked, because two rotating
    processes would lose lines.

    A day is divided into periods of `age` hours (0: no periods). The first line of a new period starts a new file. One
    thread writes with `emit`, which takes no lock: at exit, `logging` locks, flushes and closes all handlers, and must
    not wait there for a disk that hangs. Raises `OSError` if the file cannot be opened, `BlockingIOError` if another
    process writes it.
    """

    def __init__(self, path: str, size: int, age: int, count: int) -> None:
        self._age = age * _HOUR
        self._period = _NO_PERIOD
        self._wrote = True
        self._failing = False
        super().__init__(path, maxBytes=size, backupCount=count, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(descriptor)
            self._period = self._period_of(status.st_mtime) if status.st_size else _NO_PERIOD
        except BaseException:
            os.close(descriptor)
            raise
        return open(descriptor, "a", buffering=1, encoding="utf-8", errors="backslashreplace")

    def flush(self) -> None:
        """Do nothing: each line is flushed when it is written."""

    def close(self) -> None:
        """Do nothing: `end` closes the file after the thread has ended."""

    def end(self) -> None:
        """Close the file."""
        super().close()

    def _period_of(self, when: float) -> int:
        """Return the period of a time in seconds since the epoch. Periods are counted from local midnight."""
        if not self._age:
            return 0
        offset = datetime.fromtimestamp(when).astimezone().utcoffset()
        assert offset is not None
        return int(when + offset.total_seconds()) // self._age

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # name defined by logging
        """Return whether this line starts a new file."""
        full = bool(super().shouldRollover(record))  # also reopens the file if the last rotation failed to
        period = self._period_of(record.created)
        before, self._period = self._period, period
        return full or before not in (_NO_PERIOD, period)

    def doRollover(self) -> None:  # name defined by logging
        """Start a new file."""
        period = self._period
        super().doRollover()
        self._period = period

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self._wrote = True
        super().emit(record)
        if self._wrote and self._failing:
            self._failing = False
            log.warning("logFile = %s is writable again", self.baseFilename)

    def handleError(self, record: logging.LogRecord) -> None:  # name defined by logging
        """Report once that lines are lost."""
        self._wrote = False
        if not self._failing:
            self._failing = True
            log.error("logFile = %s cannot be written, so lines are lost: %s", self.baseFilename, sys.exc_info()[1])


class FileLog(logging.Handler):
    """Formats lines with its formatter, and passes them to the writer thread."""

    def __init__(self, file: RotatedFile) -> None:
        super().__init__()
        self._file = file
        self.lines: Lines[logging.LogRecord] = Lines("log-file", file.emit, self._note)

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one line to the thread, or count it as dropped."""
        self.lines.put(self._made(record))

    def _made(self, record: logging.LogRecord) -> logging.LogRecord:
        made = logging.LogRecord(record.name, record.levelno, "", 0, formatted(self, record), None, None)
        made.created = record.created
        return made

    def _note(self, dropped: int) -> logging.LogRecord:
        return self._made(dropped_note(dropped))

    def close(self) -> None:
        """Write the queued lines within `PATIENCE_S`. Called by `logging` at exit."""
        if self.lines.close():
            self._file.end()
        super().close()


def log_file(options: LogOptions) -> FileLog:
    """Return the handler for the configured file. Raises `ConfigError` if it cannot be written or belongs to another
    server."""
    path = str(expanded(options.log_file))
    try:
        return FileLog(RotatedFile(path, options.log_file_size, options.log_file_age, options.log_file_count))
    except BlockingIOError:
        raise ConfigError(f"logFile = {path} belongs to another server: give each server its own file") from None
    except OSError as error:
        raise ConfigError(f"logFile = {path} cannot be written: {error.strerror}") from None
