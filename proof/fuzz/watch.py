"""One call of a target under its limits: what it raised, how long it hung, what it allocated, how many lines it ran."""

from __future__ import annotations

import signal
import sys
import threading
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final

from proof.fuzz.target import Broken, Target

_HERE: Final = str(Path(__file__).parent)
_ROOT: Final = str(Path(__file__).parent.parent.parent)


class Hang(BaseException):
    """Raised by the alarm. Not an `Exception`, so that no handler of the code under test takes it for its own."""


class TooManySteps(BaseException):
    """Raised by the counter of lines."""


@dataclass(frozen=True)
class Finding:
    """A target did what it must not. `kind` is the error's class; equal signatures are taken for one fault."""

    target: str
    data: bytes
    kind: str
    sentence: str
    place: str
    """Where it was raised: file and line in the project."""
    trace: str

    @property
    def signature(self) -> str:
        """Ten hex digits of target, kind and place."""
        return sha256(f"{self.target} {self.kind} {self.place}".encode()).hexdigest()[:10]

    def __str__(self) -> str:
        return f"{self.target}: {self.kind} at {self.place}: {self.sentence}"


def run_watched(
    target: Target, data: bytes, memory: bool = False, steps: bool = False, alarm: bool = True
) -> Finding | None:
    """Call a target once; None when everything is as it must be. `memory` and `steps` are measured when asked for.

    alarm: False where something else looks for what hangs, and has the signal for itself.
    """
    peak = 0
    limits = target.limits
    counted = limits.steps + limits.steps_per_byte * len(data) if steps and limits.steps else 0
    try:
        with _alarm(limits.seconds if alarm else 0), _at_most(counted):
            if memory:
                tracemalloc.start()
                try:
                    target.run(data)
                    peak = tracemalloc.get_traced_memory()[1]
                finally:
                    tracemalloc.stop()
            else:
                target.run(data)
    except (Exception, Hang, TooManySteps) as error:
        return _finding(target, data, error)
    most = limits.memory + limits.memory_per_byte * len(data)
    if peak > most:
        sentence = f"{len(data)} bytes made it allocate {peak}, more than {most}"
        return Finding(target.name, data, "Memory", sentence, target.name, "")
    return None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Raise `Hang` in the main thread after so long. Elsewhere there is no alarm."""
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"not done after {seconds:g} s")

    begun = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        # The alarm of a test runner, if it has one, continues.
        signal.setitimer(signal.ITIMER_REAL, max(left - (time.monotonic() - begun), 0.001) if left else 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _at_most(steps: int) -> Iterator[None]:
    """Raise `TooManySteps` once more lines than this were run; 0 counts nothing."""
    if not steps:
        yield
        return
    left = steps

    def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
        nonlocal left
        left -= 1
        if left < 0:
            raise TooManySteps(f"more than {steps} lines were run")
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        yield
    finally:
        sys.settrace(before)


def _finding(target: Target, data: bytes, error: BaseException) -> Finding:
    trace = "".join(traceback.format_exception(error))
    sentence = " ".join(str(error).split())[:300]
    # A hang is noticed wherever the alarm rings: its place says nothing of which fault it is.
    place = target.name if isinstance(error, Hang | TooManySteps) else _place(_deepest(error).__traceback__)
    instead: bytes = getattr(error, "instead", data)
    return Finding(target.name, instead, type(error).__name__, sentence, place or target.name, trace)


def _deepest(error: BaseException) -> BaseException:
    """What a property that does not hold was noticed by, if it was an error."""
    cause = error.__cause__ if isinstance(error, Broken) else None
    return error if cause is None else cause


def _place(trace: TracebackType | None) -> str:
    """The innermost line of the code under test; where there is none, of the target itself."""
    found = own = ""
    for frame, line in traceback.walk_tb(trace):
        name = frame.f_code.co_filename
        text = f"{Path(name).name}:{line}"
        if name.startswith(_HERE) and name != __file__:
            own = f"{text} {frame.f_code.co_name}"
        elif name.startswith(_ROOT) and "/src/bolide/" in name:
            found = f"{name.rpartition('/src/bolide/')[2]}:{line}"
    return found or own
