"""`--watch SECONDS`: a command that shows something runs until Ctrl-C."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import typer

from bolide.cli.terminal.output import DONE, FAILED, UNREACHABLE

LEAST: Final = 0.1
"""Seconds between two answers, at least: servers have other things to do."""
PASSING: Final = (DONE, FAILED, UNREACHABLE)
"""Ends of a verb that may be different the next time."""
CLEAR: Final = "\x1b[H\x1b[2J"
Watch: Final = typer.Option(None, "--watch", min=LEAST, help="Repeat every N seconds until Ctrl-C.")


def watched(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with the option --watch. A failure is shown and the next answer awaited; wrong usage ends it."""

    @wraps(verb)
    def repeated(*, watch: float | None, **given: Any) -> None:
        if watch is None:
            verb(**given)
            return
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="", flush=True)
            try:
                verb(**given)
            except typer.Exit as ended:
                if ended.exit_code not in PASSING:
                    raise
            sys.stdout.flush()
            time.sleep(watch)

    shown = inspect.signature(verb)
    option = inspect.Parameter("watch", inspect.Parameter.KEYWORD_ONLY, default=Watch, annotation=float | None)
    repeated.__dict__["__signature__"] = shown.replace(parameters=[*shown.parameters.values(), option])
    repeated.__annotations__ = {**verb.__annotations__, "watch": float | None}
    return repeated
