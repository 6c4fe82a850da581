"""The log of a server: one line per event on standard error, as text for a terminal or as JSON for a collector.

A thread writes the lines (`world/lines.py`), so that a full pipe does not block a server. Times have milliseconds and
the time zone. A program that embeds Bolide and has configured logging keeps its configuration.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime
from typing import Final

from bolide.errors import ConfigError
from bolide.node.logs.log_options import LogOptions
from bolide.world.lines import Lines, LinesHandler

LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
ROOM: Final = "bolide"
"""Common prefix of all logger names."""
_ENDS: Final = str.maketrans({"\n": "\\n", "\r": "\\r"})


def time_of(record: logging.LogRecord) -> str:
    """Return the time of a record with the time zone: 2026-11-23T07:42:11.123+00:00."""
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


class TextLines(logging.Formatter):
    """Format for humans. Line breaks in messages are escaped; a traceback follows the line, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = f"{time_of(record)} {record.levelname:<7} {record.name}: {record.getMessage().translate(_ENDS)}"
        trace = self._trace(record)
        return line + "".join(f"\n    {each}" for each in trace.splitlines())

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


class JsonLines(TextLines):
    """Format for collectors: time, level, log, message, and an error with its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "time": time_of(record),
            "level": record.levelname,
            "log": record.name,
            "message": record.getMessage(),
        }
        trace = self._trace(record)
        if trace:
            fields["error"] = trace
        return json.dumps(fields, ensure_ascii=False)


class OwnHandler(LinesHandler):
    """The handler that `start_logging` has added."""


def start_logging(level: int = logging.INFO) -> None:
    """Log as text until the settings are loaded, unless the embedding program has configured logging."""
    root = logging.getLogger()
    if not root.handlers and sys.stderr is not None:
        handler = OwnHandler(sys.stderr)
        handler.setFormatter(TextLines())
        root.addHandler(handler)
        root.setLevel(level)


def configure_logging(options: LogOptions) -> None:
    """Configure format, levels and log file. Levels are `WARNING`, or `bolide.broker=DEBUG;bolide.routes=ERROR`.

    Raises `ConfigError` for an invalid level or logger, and for a file that cannot be written.
    """
    root = logging.getLogger()
    for name, level in parse_levels(options.log_levels).items():
        logging.getLogger(name or None).setLevel(level)
    form = JsonLines() if options.log_format == "json" else TextLines()
    for handler in root.handlers:
        if isinstance(handler, OwnHandler):
            handler.setFormatter(form)
    if options.log_file:
        from bolide.node.logs.log_files import log_file  # imports more than a daemon without a file needs

        file = log_file(options)
        file.setFormatter(form)
        root.addHandler(file)


def parse_levels(levels: str) -> dict[str, str]:
    """Return the level of each logger. The key "" is the level of all other loggers."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in levels.split(";"))):
        name, equals, level = part.rpartition("=")
        if level.strip().upper() not in LEVELS:
            raise ConfigError(f"logLevels = {levels}: {level.strip()!r} is not a level; use one of {', '.join(LEVELS)}")
        if equals and name.strip().split(".")[0] != ROOM:
            raise ConfigError(
                f"logLevels = {levels}: {name.strip()!r} is not a logger of Bolide, such as bolide.broker"
            )
        found[name.strip()] = level.strip().upper()
    return found


def dropped_lines() -> dict[str, int]:
    """Return the number of dropped lines per handler. The keys are "stderr" and "file"."""
    found: dict[str, int] = {}
    for handler in logging.getLogger().handlers:
        lines = getattr(handler, "lines", None)
        if isinstance(lines, Lines):
            found["stderr" if isinstance(handler, OwnHandler) else "file"] = lines.dropped
    return found
