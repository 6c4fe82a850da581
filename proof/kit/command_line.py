"""Command lines of proof tools: options, seeds, progress, signals, exit statuses."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

HELD: Final = 0
BROKEN: Final = 1
"""The run has findings."""
WRONG_USE: Final = 2
"""Wrong arguments, or the run could not be made."""
INTERRUPTED: Final = 130

Say = Callable[[str], None]
_ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SEEDS: Final = 1_000_000_000


class Parser(argparse.ArgumentParser):
    """The options of `make TOOL ARGS=…`."""

    def __init__(self, tool: str, about: str | None) -> None:
        super().__init__(
            prog=f"make {tool} ARGS=…", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    def add_seed(self, help: str, type: Callable[[str], Any] = int) -> None:
        """`--seed`; without it the run draws a seed."""
        self.add_argument("--seed", type=type, help=f"{help} (default: a new one)")

    def add_json(self) -> None:
        """`--json`."""
        self.add_argument("--json", action="store_true", help="print the figures as JSON on standard output")


def new_seed() -> int:
    """Draw a seed."""
    return secrets.randbelow(_SEEDS)


def folder_of(tool: str, given: Path | None) -> Path:
    """Return the folder of a run: the given one, or a new temporary one."""
    return given.resolve() if given is not None else Path(tempfile.mkdtemp(prefix=f"bolide-{tool}-"))


def teller(as_json: bool) -> Say:
    """Return what prints a line of progress: on standard error if the figures go to standard output as JSON."""

    def say(text: str) -> None:
        print(text, file=sys.stderr if as_json else sys.stdout, flush=True)

    return say


class Pace:
    """The time of a run, and when its next line of progress is due."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._began = self._last = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def due(self) -> bool:
        """Return whether a line is due, and count it as printed."""
        now = time.monotonic()
        if now - self._last < self._every:
            return False
        self._last = now
        return True


def on_interrupt(call: Callable[[], object]) -> None:
    """Call a function of the running event loop at SIGINT and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, call)


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGINT, SIGTERM or SIGHUP, and ignore later signals, so that the cleanup completes."""

    def end(number: int, frame: FrameType | None) -> None:
        for each in _ENDINGS:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, end) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
