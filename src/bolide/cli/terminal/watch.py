"""`--watch SECONDS`: repeats a command until Ctrl-C."""

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
"""Minimum interval in seconds, which limits the load on servers."""
LONGEST: Final = 86_400
"""Maximum interval in seconds."""
PASSING: Final = (DONE, FAILED, UNREACHABLE)
"""Exit codes after which to repeat the verb, because the next result may differ."""
CLEAR: Final = "\x1b[H\x1b[2J"
Watch: Final = typer.Option(None, "--watch", min=LEAST, max=LONGEST, help="Repeat every N seconds until Ctrl-C.")


def watched(verb: Callable[..., None]) -> Callable[..., None]:
    """Add the option --watch to a verb. Repeats the verb after a failure, but not after wrong usage."""

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
