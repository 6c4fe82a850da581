"""The program `bolide`. It loads the command line itself, so that Ctrl-C ends it quietly from its first moment on."""

from __future__ import annotations

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
