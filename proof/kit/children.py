"""Child processes of the tests: those of a test or a fixture that fails end with it.

Else they go on beside the tests that follow, and the first of these during which Python finds the forgotten process
fails for it: a warning is an error here. What a test that passes forgets is left to that warning.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

_STARTED: ContextVar[list[subprocess.Popen[Any]] | None] = ContextVar("started", default=None)
"""Children of the test or the fixture that runs; a thread that outlives its test belongs to none."""


def start(command: Any, **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen`, but what it starts ends if the test or the fixture that asked for it fails."""
    started = _STARTED.get()
    with _signals_held():
        child = subprocess.Popen(command, **options)
        if started is not None:
            started.append(child)
    return child


@contextmanager
def _signals_held() -> Iterator[None]:
    """What a signal's handler raises is raised at the end.

    Between the fork and the return of `Popen` it would leave a child that nobody knows and nobody ends.
    """
    if threading.current_thread() is not threading.main_thread():  # handlers run in the main thread alone
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    arrived: list[int] = []
    for number, handler in handlers.items():
        if callable(handler):  # what is ignored or ends this process stays so, here and in the child
            signal.signal(number, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)
        for each in arrived:
            signal.raise_signal(each)


@contextmanager
def ended_if_it_fails() -> Iterator[None]:
    """For the time of a test or of a fixture's setup. What a fixture built on stands: it belongs to that fixture."""
    started: list[subprocess.Popen[Any]] = []
    before = _STARTED.set(started)
    try:
        yield
    except BaseException:
        for child in started:
            _end(child)
        raise
    finally:
        _STARTED.reset(before)


def _end(child: subprocess.Popen[Any]) -> None:
    for stream in (child.stdin, child.stdout, child.stderr):
        if stream is not None:
            with suppress(OSError):  # what was still to be written
                stream.close()
    if child.poll() is not None:
        return
    with suppress(ProcessLookupError):
        if os.getpgid(child.pid) == child.pid:
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()
