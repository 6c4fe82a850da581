"""What a failed test started is ended; what stands beneath it, and what a test that passes started, is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from proof.kit.children import ended_if_it_fails, start

SLEEPS = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]


def started(**options: Any) -> subprocess.Popen[bytes]:
    child = start(SLEEPS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **options)
    child.stdout.readline()
    return child


@pytest.fixture
def beneath() -> Iterator[subprocess.Popen[bytes]]:
    with started() as child:
        yield child
        child.kill()


@pytest.mark.parametrize("leads", [False, True])
def test_a_failure_ends_what_it_started(beneath: subprocess.Popen[bytes], leads: bool) -> None:
    found: list[subprocess.Popen[bytes]] = []
    with pytest.raises(ZeroDivisionError), ended_if_it_fails():
        found += [started(start_new_session=leads), started()]
        with ended_if_it_fails():  # a fixture that comes to its end
            found.append(started())
        found[0].stdin.write(b"never read")
        raise ZeroDivisionError
    beside = found.pop()
    assert [child.returncode for child in found] == [-9, -9]
    assert all(stream.closed for child in found for stream in (child.stdin, child.stdout))
    assert beneath.poll() is None and beside.poll() is None
    with beside:
        beside.kill()


@pytest.fixture
def ending() -> Iterator[signal.Signals]:
    """A signal whose handler raises, as Ctrl-C's does where it is not ignored."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield signal.SIGTERM
    signal.signal(signal.SIGTERM, before)


def test_a_signal_while_a_child_starts_is_raised_when_the_child_is_known(
    ending: signal.Signals, tmp_path: Path
) -> None:
    class Interrupting(os.PathLike[str]):
        """A folder that is asked for its name in the middle of `Popen`, when the signal comes."""

        def __fspath__(self) -> str:
            signal.raise_signal(ending)
            return str(tmp_path)

    found: list[list[str]] = []
    with pytest.raises(KeyboardInterrupt), ended_if_it_fails():
        try:
            start(SLEEPS, cwd=Interrupting(), stdout=subprocess.PIPE)
        finally:
            found.append(_children(tmp_path))
    assert [len(each) for each in found] == [1] and _children(tmp_path) == []


def _children(folder: Path) -> list[str]:
    """The children of this process that run in a folder."""
    found = []
    for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split():
        with suppress(OSError):  # one that has ended
            if Path(f"/proc/{child}/cwd").readlink() == folder:
                found.append(child)
    return found
