"""The output of the command line: tables for users, JSON for programs, and one sentence for an error.

Escapes text of other origin (topics, keys, bodies) before it reaches a terminal. Only results are written to standard
output, and progress and warnings to standard error, so that output can be piped.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NoReturn

import typer

from bolide.cli.terminal.closed_pipe import silence
from bolide.errors import ArgumentError, BolideError, ConfigError, ConnectionLost, RequestTimeout

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
BROKEN: Final = 4
"""Exit code if a check could not run. FAILED means that it has findings."""
PIPE_CLOSED: Final = 141
"""The exit code that shells expect when the reader closed the pipe: 128 + SIGPIPE."""


class _Asked:
    """Form of the running command's output. Each parse of a command line sets it."""

    as_json = False


_asked: Final = _Asked()


def errors_as_json(wanted: bool) -> bool:
    """Set whether errors of the running command are printed as JSON. Returns `wanted`, as typer's callbacks must."""
    _asked.as_json = wanted
    return wanted


JsonFlag: Final = typer.Option(
    False, "--json", callback=errors_as_json, help="Print results and errors as JSON instead of tables."
)


def printable(value: object) -> str:
    """Escape control characters, so that text cannot move a terminal's cursor."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_json(value: Any) -> None:
    """Print an indented JSON document on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_json_line(value: Any) -> None:
    """Print a JSON document on one line, for streams of results."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


class Moment(int):
    """A time in ms since 1970. Tables show local time with its zone, in a format that options accept. JSON contains the
    number."""

    def __str__(self) -> str:
        text = datetime.fromtimestamp(self / 1000).astimezone().isoformat(timespec="seconds")
        return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def moment(milliseconds: int) -> Moment | None:
    """Return a time for a table or JSON, or None for 0 or less."""
    return Moment(milliseconds) if milliseconds > 0 else None


class Span(int):
    """A duration in ms. Tables show one or two units. JSON contains the number."""

    def __str__(self) -> str:
        seconds = self // 1000
        for unit, length, under, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
            if seconds >= length:
                rest = seconds % length // part
                return f"{seconds // length} {unit}" + (f" {rest} {under}" if rest else "")
        return f"{self / 1000:.1f} s" if seconds < 10 else f"{seconds} s"


def span(milliseconds: int | None) -> Span | None:
    """Return a duration for a table or JSON, or None if it is unknown."""
    return None if milliseconds is None else Span(milliseconds)


def json_rows(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[dict[str, object]]:
    """Return rows as objects with the column names as keys, in lower case with underscores."""
    keys = [column.lower().replace(" ", "_").replace("/s", "_per_second") for column in columns]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], as_json: bool) -> None:
    """Print rows under named columns, or a JSON list of objects, see `json_rows`.

    Values wrap only at spaces. On a terminal that is too narrow for that, each row is a block with one line per column.
    Outputs other than terminals get one line per row.
    """
    if as_json:
        print_json(json_rows(columns, rows))
        return
    shown = [[_cell(cell) for cell in row] for row in rows]
    right = [bool(rows) and all(type(row[index]) in (int, float) for row in rows) for index in range(len(columns))]
    _print_table(title, columns, shown, right, [dict(zip(columns, row, strict=True)) for row in shown])


def _print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    blocks: Sequence[dict[str, str]],
) -> None:
    """Print rows, or `blocks` of names and values if the terminal is too narrow for the rows."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    class Output(Console):
        def on_broken_pipe(self) -> None:
            end_closed()

    drawn = Table(title=title, title_justify="left", header_style="bold")
    least = most = 3 * len(columns) + 1
    for index, column in enumerate(columns):
        longest = max((cell_len(word) for row in rows for word in (column, *row[index].split())), default=0)
        drawn.add_column(column, justify="right" if right[index] else "left", min_width=longest)
        least += longest
        most += max((cell_len(text) for row in rows for text in (column, row[index])), default=0)
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    # With NO_COLOR (https://no-color.org), Rich keeps bold and italic. Omit these escapes, too.
    console = Output(color_system=None if os.environ.get("NO_COLOR") else "auto")
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = max(console.width, most)
    if not rows or least <= console.width:
        console.print(drawn)
        if not rows:
            console.print("(none)", style="dim")
        return
    console.print(Text(title, style="italic"), soft_wrap=True)
    for block in blocks:
        console.print()
        # A long name, such as a statistic with the path of a disk, must not push all values off the screen.
        width = min(max(map(len, block)), console.width // 2)
        for name, value in block.items():
            console.print(Text.assemble((name.ljust(width), "bold"), f"  {value}"), soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and not isinstance(value, (Moment, Span)):
        return f"{value:,}"
    return printable(value)


def pairs(title: str, values: dict[str, Any], as_json: bool) -> None:
    """Print names and values, or one JSON object."""
    if as_json:
        print_json(values)
        return
    rows = [(name, _cell(value)) for name, value in values.items()]
    _print_table(title, ("Name", "Value"), rows, (False, False), [dict(rows)])


def note(text: str) -> None:
    """Print a line on standard error that is not part of the result."""
    print(text, file=sys.stderr, flush=True)


def fail(text: str, code: int = FAILED) -> NoReturn:
    """Print one sentence on standard error and exit. With --json, print an object with the sentence and the exit
    code."""
    if _asked.as_json:
        note(json.dumps({"error": text, "exit_code": code}, ensure_ascii=False))
    else:
        note(f"bolide: {text}")
    raise typer.Exit(code)


@contextmanager
def usage_as_json() -> Iterator[None]:
    """With --json, report typer's errors as `fail` does. Without it, typer prints the usage and the error."""
    try:
        yield
    except typer.TyperException as error:
        if not _asked.as_json:
            raise
        fail(error.format_message(), error.exit_code)


def end_closed() -> NoReturn:
    """Exit because the reader closed the pipe."""
    silence()
    raise typer.Exit(PIPE_CLOSED)


@contextmanager
def boundary(failed: int = FAILED) -> Iterator[None]:
    """Convert errors to one sentence and an exit code. No other code of the command line catches errors broadly.

    `failed` is the exit code of errors other than wrong usage and unreachable servers.
    """
    try:
        yield
    except (ConfigError, ArgumentError) as error:
        fail(str(error), USAGE)
    except (ConnectionLost, RequestTimeout) as error:
        fail(f"{error}; is it running, and is the address right?", UNREACHABLE)
    except BolideError as error:
        fail(str(error), failed)
    except BrokenPipeError:
        end_closed()
    except UnicodeEncodeError as error:
        if error.encoding != "utf-8":
            raise  # the terminal's
        fail(f"{error.object[:60]!r} is not UTF-8: write the argument in UTF-8", USAGE)
    except OSError as error:
        fail(f"{error.filename or 'the system'}: {error.strerror or error}", failed)
    except Exception as error:
        if failed == FAILED or isinstance(error, (typer.Exit, typer.Abort)):
            raise
        # Python's own code for this is 1, which here means that a check found something.
        fail(f"unexpected error, please report it: {type(error).__name__}: {error}", failed)
