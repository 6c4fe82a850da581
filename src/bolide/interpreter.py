"""The command that runs this process's Python in a child process.

`python -m` and `python -c` search the current folder first, so a file `bolide.py` or `json.py` there would run instead
of the installed module. `-P` excludes that folder; PYTHONPATH still applies.
"""

from __future__ import annotations

import sys


def python(*arguments: str) -> list[str]:
    """Return the command that runs this Python with `arguments`, such as `-m` and the name of a module."""
    return [sys.executable, "-P", *arguments]
