"""How a measurement stops before its end: a reason in one sentence, and nothing left of what it started or made."""

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from bench.report.shown import say

from bolide.errors import BolideError
from proof.interop.java_artefacts import ArtefactError

Result = TypeVar("Result")
INTERRUPTED, FAILED = 130, 2
_LONGEST = 500
"""Characters of a reason: what a tool prints beyond its first line is its own affair."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Failed(Exception):
    """A measurement cannot be made; the text is one sentence that says why, and what to do."""


def last_line(text: str) -> str:
    """The last line of a text that says anything: where programs put their reason."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def measured(name: str, folder: Path | None, run: Callable[[Path, ExitStack], Result]) -> Result:
    """What `run` returns, given a folder of its own below `folder` and a stack of what ends with it.

    Ctrl-C and SIGTERM end the program with 130, what failed with 2, each with a sentence. Either way all that was
    started is ended first and the folder is gone; another Ctrl-C does not cut that short.
    """
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    with ExitStack() as ends:
        try:
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=f"bolide-{name}-", dir=folder)).resolve()
            ends.callback(shutil.rmtree, work, ignore_errors=True)
            return run(work, ends)
        except KeyboardInterrupt:
            reason, status = "interrupted, and what was started is ended", INTERRUPTED
        except (Failed, ArtefactError, BolideError, OSError, subprocess.SubprocessError) as error:
            reason, status = " ".join(str(error).splitlines()[:2])[:_LONGEST], FAILED
        finally:
            _ignore_signals()
    say(f"{name}: {reason}")
    raise SystemExit(status)


def _interrupt(number: int, frame: object) -> None:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
