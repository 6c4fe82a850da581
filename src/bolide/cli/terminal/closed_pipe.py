"""Detects immediately that the reader of standard output has closed the pipe (`| head -1`)."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def when_closed(then: Callable[[], object]) -> Iterator[None]:
    """Call `then` in the running loop once the reader has closed the output pipe. Never called for other outputs."""
    loop = asyncio.get_running_loop()
    handle = _pipe()
    if handle < 0:
        yield
        return

    def told() -> None:
        loop.remove_reader(handle)
        then()

    # The writing end of a pipe is never readable; the error of the closed reading end wakes the watcher.
    loop.add_reader(handle, told)
    try:
        yield
    finally:
        loop.remove_reader(handle)


def unread() -> int:
    """Return the number of unread bytes in the pipe of standard output, or 0 for other outputs."""
    handle = _pipe()
    if handle < 0:
        return 0
    import fcntl
    import termios

    count = array("i", [0])
    try:
        fcntl.ioctl(handle, termios.FIONREAD, count)
    except OSError:  # the system does not support this for a writing end
        return 0
    return count[0]


def silence() -> None:
    """Discard the buffered output for a closed pipe, so that the interpreter does not report an error at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, sys.stdout.fileno())
    except (OSError, ValueError):  # without a descriptor, the interpreter does not flush either
        return
    finally:
        os.close(nowhere)


def _pipe() -> int:
    """Return the descriptor of standard output if it is a pipe that a loop can watch, else -1."""
    if sys.platform == "win32":
        return -1
    try:
        handle = sys.stdout.fileno()
        return handle if stat.S_ISFIFO(os.fstat(handle).st_mode) else -1
    except (OSError, ValueError):
        return -1
