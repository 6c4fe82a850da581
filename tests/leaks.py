"""One check per test: a test closes what it opens and restores what it changes.

A thread, a child process, a descriptor, a pending task or a changed setting of the process that a test leaves behind
affects the tests after it: one of them fails, at some later time. This plug-in compares the process before and after
each test, and fails the test that leaves something.

Fixtures that live longer than a test open things legitimately. What they open during their setup counts as open before
the test. What they open later is exempt if its owner is known: see `_is_owned`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import uvloop

from proof.kit.ports import held_descriptors
from proof.kit.waiting import PATIENCE

DESCRIPTORS = Path("/proc/self/fd")
TASKS = Path("/proc/self/task")
"""Where Linux lists descriptors and child processes; elsewhere they are not compared."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2)
CURRENT_TEST = "PYTEST_CURRENT_TEST"
"""A variable that pytest itself changes."""
LASTING = ("simulated job",)
"""Threads that one simulation after the other uses (`proof.simulation.threads`)."""
LEFT = "the test leaves:"
"""How the message of a failed check starts."""
NONE = object()
"""The value of a setting that does not exist."""


class Leaks:
    """The plug-in. Each worker of a run has its own."""

    def __init__(self) -> None:
        self._open: dict[object, str] = {}
        self._settings: dict[str, object] = {}
        self._changed: dict[pytest.FixtureDef[Any], list[str]] = {}
        self._passes = False
        self._patience = PATIENCE
        note_starters()
        uvloop.new_event_loop().close()  # libuv opens a pipe with the first loop of a process, and keeps it

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self) -> Generator[None, Any, Any]:
        self._open, self._settings, self._passes = opened(), settings(), False
        result = yield
        self._passes = True
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        self._passes = False
        result = yield
        self._passes = True
        return result

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        before, old = opened(), settings()
        try:
            return (yield)
        finally:
            self._open.update({key: what for key, what in opened().items() if key not in before})
            changed = differences(old, settings())
            self._changed[fixturedef] = [*changed]
            self._settings.update({name: after for name, (_, after) in changed.items()})

    def pytest_fixture_post_finalizer(self, fixturedef: pytest.FixtureDef[Any]) -> None:
        """Where a fixture that lives longer has ended, the settings that it changed are as it leaves them."""
        if changed := self._changed.pop(fixturedef, []):
            now = settings()
            self._settings.update({name: now.get(name, NONE) for name in changed})

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        result = yield
        checked = self._passes and not _shares_what_opens_later(item)
        if checked and (found := self._left(item)):  # a test that fails has its error already
            pytest.fail("\n  ".join([LEFT, *found]), pytrace=False)
        return result

    def _left(self, item: pytest.Item) -> list[str]:
        """Describe what the test leaves. Waits for what is about to end, e.g. the peer's half of a connection."""
        changed = differences(self._settings, settings())
        found = [f"{name}: {old!r} before, {new!r} now" for name, (old, new) in changed.items()]
        left = self._more()
        if left:
            left = {}  # it would keep tasks from the garbage collector
            found += _collected(item)
            end = time.monotonic() + self._patience
            while (left := self._more()) and time.monotonic() < end:
                time.sleep(0.005)
        if left:
            self._patience = 1.0  # the run fails anyway
        return found + [_described(key, what) for key, what in left.items()]

    def _more(self) -> dict[object, str]:
        """What is open now, was not before, and belongs to nobody who lives longer."""
        more = _without_blocking_client({key: what for key, what in opened().items() if key not in self._open})
        return {key: what for key, what in more.items() if not _is_owned(key, what, self._open)}


def _shares_what_opens_later(item: pytest.Item) -> bool:
    """Whether a Spark session, a Java cluster or a browser serves several tests.

    These open sockets, JVMs and threads when a test first needs them, and close them at their end.
    """
    groups = {name for marker in item.iter_markers("xdist_group") for name in marker.args}
    return bool(item.get_closest_marker("spark") or item.get_closest_marker("java") or "browser" in groups)


def opened() -> dict[object, str]:
    """What is open now, by its identity."""
    ports = held_descriptors()
    found: dict[object, str] = {thread: f"thread {thread.name}" for thread in threading.enumerate()}
    found.update({task: f"task {task.get_name()}, which is pending" for task in _forgotten_tasks()})
    found.update({("descriptor", number, what): what for number, what in _descriptors() if number not in ports})
    found.update({("child", number): f"child process {number}" for number in _children()})
    return found


def _forgotten_tasks() -> list[asyncio.Task[Any]]:
    """Tasks that will never end because their loop does not run."""
    registered: Any = asyncio.tasks
    every = getattr(registered, "_scheduled_tasks", None) or getattr(registered, "_all_tasks", ())
    return [task for task in list(every) if not task.done() and not task.get_loop().is_running()]


def _descriptors() -> Iterator[tuple[int, str]]:
    if DESCRIPTORS.exists():
        for number in os.listdir(DESCRIPTORS):
            with suppress(OSError):  # the one that lists them
                yield int(number), os.readlink(f"{DESCRIPTORS}/{number}")


def _children() -> Iterator[int]:
    if TASKS.exists():
        for thread in os.listdir(TASKS):
            with suppress(OSError):  # a thread that has ended
                yield from map(int, Path(f"{TASKS}/{thread}/children").read_text(encoding="ascii").split())


def settings() -> dict[str, object]:
    """What the whole process shares, by name."""
    found: dict[str, object] = {
        "the working directory": os.getcwd(),
        "sys.path": [*sys.path],
        "garbage collection": (gc.isenabled(), gc.get_threshold()),
        "the limit of descriptors": resource.getrlimit(resource.RLIMIT_NOFILE),
        "tracing": (sys.gettrace(), sys.getprofile()),
    }
    found.update({f"the variable {name}": value for name, value in os.environ.items() if name != CURRENT_TEST})
    found.update({f"the handler of {number.name}": signal.getsignal(number) for number in SIGNALS})
    for logger in (logging.getLogger(), logging.getLogger("bolide")):
        found[f"the logger {logger.name}"] = (logger.level, logger.propagate, [*logger.handlers])
    return found


def differences(old: dict[str, object], new: dict[str, object]) -> dict[str, tuple[object, object]]:
    """What changed, with both values.

    Python's own handler of SIGINT is no change: an event loop puts it in place of a handler that a Spark session of an
    earlier test had set.
    """
    both = {name: (old.get(name, NONE), new.get(name, NONE)) for name in {**old, **new}}
    return {
        name: values
        for name, values in both.items()
        if values[0] != values[1] and values[1] is not signal.default_int_handler
    }


def _is_owned(key: object, what: str, before: dict[object, str]) -> bool:
    """Whether somebody who lives longer than the test opened this.

    A thread belongs to the thread that started it, a file to the store whose lock is held, an accepted connection to
    the server that listens at its address.
    """
    if isinstance(key, threading.Thread):
        if key.name in LASTING:
            return True
        starter = _STARTERS.get(key)
        return starter not in (None, threading.main_thread()) and (
            starter in before or _is_owned(starter, what, before)
        )
    if what.startswith("socket:"):
        return _address(key) in [_address(other) for other in before if _listens(other)]
    return any(path.endswith("/lock") and what.startswith(path.removesuffix("lock")) for path in before.values())


def _without_blocking_client(more: dict[object, str]) -> dict[object, str]:
    """Leave out what belongs to the blocking clients: a thread with a loop, from their first use on.

    libuv opens /dev/null for a loop with its first stream.
    """
    names = [thread.name for thread in threading.enumerate()]
    theirs = ("/dev/null",) if "bolide-client" in names else ()
    if any(isinstance(key, threading.Thread) and key.name == "bolide-client" for key in more):
        theirs += ("thread bolide-client", "anon_inode:", "pipe:")
    return {key: what for key, what in more.items() if not what.startswith(theirs)}


_STARTERS: WeakKeyDictionary[threading.Thread, threading.Thread] = WeakKeyDictionary()
"""The thread that started a thread. Python does not keep it."""


def note_starters() -> None:
    """Keep the starter of each thread from now on."""
    start = threading.Thread.start

    def noted(self: threading.Thread) -> None:
        _STARTERS[self] = threading.current_thread()
        start(self)

    threading.Thread.start = noted  # type: ignore[method-assign]  # as asked


def _collected(item: pytest.Item) -> list[str]:
    """Drop what only the fixtures of the test or garbage hold. Returns what complains that it was not closed."""
    said: list[str] = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda each: said.append(f"garbage: {each.exc_value}")
    try:
        getattr(item, "funcargs", {}).clear()
        gc.collect()
    finally:
        sys.unraisablehook = hook
    return said


def _described(key: object, what: str) -> str:
    match key:
        case ("descriptor", int(number), str()) if what.startswith("socket:"):
            return f"descriptor {number}: {_addresses(number)}"
        case ("descriptor", int(number), str()):
            return f"descriptor {number}: {what}"
        case ("child", int(number)):
            command = Path(f"/proc/{number}/cmdline")
            with suppress(OSError):
                return f"{what}: {command.read_text(encoding='utf-8').replace(chr(0), ' ').strip()}"
    return what


def _listens(key: object) -> bool:
    match key:
        case ("descriptor", int(number), str(what)) if what.startswith("socket:"):
            with suppress(OSError), _copy(number) as copy:
                return bool(copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _address(key: object) -> object:
    match key:
        case ("descriptor", int(number), str()):
            with suppress(OSError), _copy(number) as copy:
                return copy.getsockname()
    return None


def _addresses(number: int) -> str:
    with suppress(OSError), _copy(number) as copy:
        with suppress(OSError):
            return f"socket {copy.getsockname()} to {copy.getpeername()}"
        return f"socket {copy.getsockname()}"
    return "socket"


def _copy(number: int) -> socket.socket:
    return socket.socket(fileno=os.dup(number))
