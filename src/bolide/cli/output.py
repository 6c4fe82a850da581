"""What the command line prints: tables for people, JSON for programs, and one sentence for an error.

What peers wrote (topics, keys, bodies) is escaped before a terminal sees it. JSON goes to standard output alone;
everything that is not the answer (progress, warnings) goes to standard error, so that output pipes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import typer

from bolide.cli.closed_pipe import silence
from bolide.errors import BolideError, ConfigError, ConnectionLost, RequestTimeout

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
BROKEN: Final = 4
"""A check could not be made; FAILED means that it found something."""
INTERRUPTED: Final = 130
"""What a shell expects of a process that Ctrl-C ended."""
PIPE_CLOSED: Final = 141
"""What a shell expects of a process whose reader has left: 128 + SIGPIPE."""

JsonFlag: Final = typer.Option(False, "--json", help="Print JSON for programs instead of a table for people.")


def printable(value: object) -> str:
    """Text that cannot move a terminal's cursor: control characters are shown as escapes."""
    text = "" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def print_json(value: Any) -> None:
    """One JSON document, indented, on standard output."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def print_json_line(value: Any) -> None:
    """One JSON document on one line: for streams of answers."""
    print(json.dumps(value, ensure_ascii=False, default=str), flush=True)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], as_json: bool) -> None:
    """Rows under named columns; as JSON a list of objects with the column names as keys."""
    if as_json:
        keys = [column.lower().replace(" ", "_") for column in columns]
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        number = bool(rows) and all(type(row[index]) in (int, float) for row in rows)
        drawn.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_cell(cell) for cell in row))

    class Output(Console):
        def on_broken_pipe(self) -> None:
            end_closed()

    console = Output()
    console.print(drawn)
    if not rows:
        console.print("(none)", style="dim")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else printable(value)


def pairs(title: str, values: dict[str, Any], as_json: bool) -> None:
    """Names and values; as JSON one object."""
    if as_json:
        print_json(values)
        return
    table(title, ("Name", "Value"), list(values.items()), False)


def note(text: str) -> None:
    """A line for people that is not part of the answer."""
    print(text, file=sys.stderr, flush=True)


def fail(text: str, code: int = FAILED) -> NoReturn:
    """One sentence on standard error, and the end."""
    note(f"bolide: {text}")
    raise typer.Exit(code)


def end_closed() -> NoReturn:
    """End because the reader of our output has left."""
    silence()
    raise typer.Exit(PIPE_CLOSED)


@contextmanager
def boundary(failed: int = FAILED) -> Iterator[None]:
    """The one place where errors become a sentence and an exit code; nothing else catches broadly.

    `failed` is the code of what is neither wrong usage nor an address that does not answer.
    """
    try:
        yield
    except ConfigError as error:
        fail(str(error), USAGE)
    except (ConnectionLost, RequestTimeout) as error:
        fail(f"{error}; is it running, and is the address right?", UNREACHABLE)
    except BolideError as error:
        fail(str(error), failed)
    except BrokenPipeError:
        end_closed()
    except OSError as error:
        fail(f"{error.filename or 'the system'}: {error.strerror or error}", failed)
    except Exception as error:
        if failed == FAILED or isinstance(error, (typer.Exit, typer.Abort)):
            raise
        # Python's own code for this is 1, which is taken by what a check found.
        fail(f"this should not happen, please report it: {type(error).__name__}: {error}", failed)
