"""The log of a daemon: one line an event on standard error, as text for a terminal or as JSON for a collector.

A thread writes them (`world/lines.py`), so that a full pipe does not block a daemon.
Times have milliseconds and the zone. An embedding program that has set up logging keeps its own.
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
"""What the names of all logs here begin with."""
_ENDS: Final = str.maketrans({"\n": "\\n", "\r": "\\r"})


def time_of(record: logging.LogRecord) -> str:
    """When it was, with the zone: 2026-11-23T07:42:11.123+00:00."""
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


class TextLines(logging.Formatter):
    """For people. What a peer put into a message makes no second line; a traceback follows it, indented."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = f"{time_of(record)} {record.levelname:<7} {record.name}: {record.getMessage().translate(_ENDS)}"
        trace = self._trace(record)
        return line + "".join(f"\n    {each}" for each in trace.splitlines())

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


class JsonLines(TextLines):
    """For collectors: time, level, log, message, and the error with its traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
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
    """The handler that `start_logging` has made."""


def start_logging(level: int = logging.INFO) -> None:
    """Log as text until the settings say otherwise, unless the embedding program has set up its own."""
    root = logging.getLogger()
    if not root.handlers and sys.stderr is not None:
        handler = OwnHandler(sys.stderr)
        handler.setFormatter(TextLines())
        root.addHandler(handler)
        root.setLevel(level)


def configure_logging(options: LogOptions) -> None:
    """Log as `text` or `json`, with these levels: `WARNING`, or `bolide.broker=DEBUG;bolide.routes=ERROR`.

    Raises `ConfigError` for a level or log that cannot be, and for a file that cannot be written.
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
    """The level of each log; "" is for all that are not named."""
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
    """Return the number of dropped lines of each handler: by "stderr" and "file"."""
    found: dict[str, int] = {}
    for handler in logging.getLogger().handlers:
        lines = getattr(handler, "lines", None)
        if isinstance(lines, Lines):
            found["stderr" if isinstance(handler, OwnHandler) else "file"] = lines.dropped
    return found
