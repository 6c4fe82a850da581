"""The program `bolide`. It loads the command line itself, so that Ctrl-C ends it quietly from its first moment on."""

from __future__ import annotations

import atexit
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130
"""The exit code that shells expect after Ctrl-C."""


def main() -> None:
    """Run the command line; ends with `INTERRUPTED` after Ctrl-C."""
    try:
        from bolide.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    """Keep the exit code of a command that has ended, whatever signals still arrive.

    While the interpreter frees its modules, which takes longer than many a clean stop, it has already put the system's
    handlers in place of its own, and a second SIGTERM or Ctrl-C would kill the process. It keeps ignored signals.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
