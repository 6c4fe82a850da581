"""The program `bolide`. It imports the command line lazily, so that Ctrl-C ends it quietly even during the import."""

from __future__ import annotations

import atexit
import signal
import sys
from typing import Final

INTERRUPTED: Final = 130
"""The exit code that shells expect after Ctrl-C."""


def main() -> None:
    """Run the command line. Exits with `INTERRUPTED` after Ctrl-C."""
    try:
        from bolide.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        atexit.register(_ignore_signals)


def _ignore_signals() -> None:
    """Ignore further signals, so that they cannot change the exit code of a finished command.

    While the interpreter frees its modules, which takes long, it has already restored the system's handlers, and a
    second SIGTERM or Ctrl-C would kill the process. It does not change ignored signals.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
