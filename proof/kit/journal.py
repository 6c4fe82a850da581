"""Journals of client processes: one JSON array per line, which another process reads while it grows.

Each process writes its own file, each line by a single unbuffered write, so a written line survives a SIGKILL of the
process. The last line of a killed process may be torn. Times are the monotonic clock, which all processes share.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Entry = list[Any]
"""Time, name of the event, and its fields."""


class Journal:
    """The writing end."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._serial = 0

    def note(self, what: str, *fields: object) -> None:
        """Write one line. The kernel has it when this returns."""
        line = json.dumps([time.monotonic(), what, *fields], separators=(",", ":"))
        os.write(self._fd, line.encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def next_serial(self) -> str:
        """Return a name that connects two lines of this process."""
        self._serial += 1
        return f"{os.getpid()}-{self._serial}"


class Follower:
    """The reading end of a file that still grows, or does not exist yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def entries(self) -> list[Entry]:
        """Return the complete new lines. Skips a torn line, which another process continued after a kill."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._at += len(whole)
        found = []
        for line in whole.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, list):
                found.append(entry)
        return found
