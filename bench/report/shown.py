"""What a long measurement shows: aligned tables, a line that moves while a step runs, its wall and processor time."""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_EVERY_SECONDS = 1.0
_QUIET_SECONDS = 10.0


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as text, each column as wide as its widest cell."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def say(text: str) -> None:
    """A line for who waits; standard output stays free for the result."""
    print(text, file=sys.stderr, flush=True)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """`--json`, for `write_json`."""
    told = "print everything measured, or write it to a file"
    parser.add_argument("--json", nargs="?", const="-", default="", metavar="FILE", help=told)


def write_json(values: dict[str, Any], where: str) -> None:
    """Print the values, or write them to a file; nothing for an empty `where`."""
    text = json.dumps(values, indent=1) + "\n"
    if where == "-":
        sys.stdout.write(text)
    elif where:
        try:
            Path(where).write_text(text, encoding="utf-8")
        except OSError as error:  # what was measured stands above already
            raise SystemExit(f"{where} cannot be written: {error.strerror}") from None


def median(values: Sequence[float]) -> float:
    """The median, or 0 of nothing."""
    return statistics.median(values) if values else 0.0


def _tree_cpu_seconds() -> float:
    # Loads Spark, which those who only take a table from here do not need.
    from bolide.spark.bench.measure import tree_cpu_seconds

    return tree_cpu_seconds()


class Step:
    """A step while it runs: on a terminal one line that is written over each second, else a line every ten seconds.

    `seconds` and `cpu_seconds` are those up to now, and stand still once the step has ended. Processor time is that of
    this process and all it started, sampled, because what ends takes its own along.
    """

    def __init__(self, what: str, detail: Callable[[], str] = str) -> None:
        self._what = what
        self._detail = detail
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._most = 0.0

    def __enter__(self) -> Self:
        self._cpu_before = self._most = _tree_cpu_seconds()
        self._began = time.monotonic()
        self._seconds: float | None = None
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()
        self._ended.set()
        self._thread.join()

    def end(self) -> None:
        """Stop the clock; what follows in the step does not count."""
        if self._seconds is None:
            self._seconds = self.seconds
            self._sample()

    @property
    def seconds(self) -> float:
        """Wall time."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all processes together."""
        return self._most - self._cpu_before

    def _sample(self) -> None:
        self._most = max(self._most, _tree_cpu_seconds())

    def _show(self) -> None:
        terminal = sys.stderr.isatty()
        told = 0.0
        while not self._ended.wait(_EVERY_SECONDS):
            if self._seconds is None:
                self._sample()
            if not terminal and self.seconds < told + _QUIET_SECONDS:
                continue
            told = self.seconds
            try:
                detail = self._detail()
            except OSError:  # a file that was looked at is gone
                detail = ""
            text = f"{self._what}: {told:.0f} s{', ' if detail else ''}{detail}"
            sys.stderr.write(f"\r{text}\x1b[K" if terminal else f"{text}\n")
            sys.stderr.flush()
        if terminal and told:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
