"""Copies of the project, jobs on them in forks of this process, and the judges that make these jobs.

This process imports the libraries that jobs need, but no module of the project that a mutation can change. The forks
inherit them, which saves most of the time of a short job.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from proof.mutations.mutation import ROOT, Mutation, MutationError

POLL_SECONDS: Final = 0.01
PASSED: Final = 0
FAILED: Final = 1
KILLED: Final = -9
CRASHED: Final = 70
"""Exit code of a job that raised."""
PROJECT: Final = ("bolide", "proof", "tests", "tools")


@dataclass(frozen=True)
class Job:
    """A call in a fork, in a copy of the project with a mutation, or without one. `work` returns the exit code."""

    work: Callable[[Path], int]
    mutation: Mutation | None = None


@dataclass(frozen=True)
class Done:
    """A job that has ended. The exit code is KILLED if it reached the limit of time."""

    job: Job
    code: int
    output: str
    seconds: float


class _Run:
    """A running job."""

    def __init__(self, copy: Path, job: Job, limit: float, whole: dict[Path, str]) -> None:
        self.copy = copy
        self.job = job
        self.whole = whole
        """The texts of the changed files without the mutation."""
        self._limit = limit
        self._output = copy / "output"
        self._began = time.monotonic()
        sys.stdout.flush()  # otherwise the fork would print the buffer again
        self._pid = os.fork()
        with suppress(PermissionError):  # parent and fork both try, and the first one succeeds
            os.setpgid(self._pid, 0)
        if self._pid == 0:
            code = CRASHED
            try:
                _enter(copy, self._output)
                code = job.work(copy)
                sys.stdout.flush()
            except BaseException:  # the fork must never return into the parent's code
                traceback.print_exc()
            finally:
                os._exit(code)

    def poll(self) -> Done | None:
        """Return the result once the job has ended or has reached its limit, or None."""
        seconds = time.monotonic() - self._began
        if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            code = self.end()
        elif seconds > self._limit:
            self.end()
            code = KILLED
        else:
            return None
        return Done(self.job, code, self._output.read_text(encoding="utf-8", errors="replace"), seconds)

    def end(self) -> int:
        """End the fork and the processes that it started. Returns the fork's exit code."""
        os.killpg(self._pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])


def _enter(copy: Path, output: Path) -> None:
    """Let this process use the copy, and write its output to a file."""
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    os.environ["BOLIDE_IMPL"] = "python"
    os.environ["PYTHONPATH"] = str(copy / "src")  # for processes that the job starts
    sys.path = [str(copy / "src"), str(copy), *(path for path in sys.path if path not in ("", str(ROOT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in PROJECT]:
        del sys.modules[name]


class Bench:
    """Copies of the project: each runs one job at a time. Use it as a context manager."""

    def __init__(self, copies: int, names: Iterable[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bolide-mutations-")
        self._writes = 0
        self._runs: list[_Run] = []
        self._free = [Path(self._folder.name) / str(number) for number in range(copies)]
        for copy in self._free:
            copy.mkdir()
            for name in names:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
                else:
                    shutil.copy(ROOT / name, copy / name)

    @property
    def copies(self) -> int:
        """Number of jobs that run at a time."""
        return len(self._free) + len(self._runs)

    def run(self, jobs: Iterable[Job], limit: float) -> Iterator[Done]:
        """Yield each job as it ends. A job that takes more than `limit` seconds is killed.

        Raises `MutationError` if a mutation does not fit.
        """
        left = list(reversed(list(jobs)))
        while left or self._runs:
            while left and self._free:
                self._runs.append(self._start(left.pop(), limit))
            time.sleep(POLL_SECONDS)
            for run in list(self._runs):
                if (done := run.poll()) is not None:
                    self._runs.remove(run)
                    for path, text in run.whole.items():
                        self._write(path, text)
                    self._free.append(run.copy)
                    yield done

    def _start(self, job: Job, limit: float) -> _Run:
        copy = self._free[-1]
        changed = job.mutation.applied_to(copy / "src" / "bolide") if job.mutation else {}
        whole = {path: path.read_text(encoding="utf-8") for path in changed}
        for path, text in changed.items():
            self._write(path, text)
        return _Run(self._free.pop(), job, limit, whole)

    def _write(self, source: Path, text: str) -> None:
        """Write with a new time: Python takes byte code for fresh if size and second of the source are the same."""
        source.write_text(text, encoding="utf-8")
        self._writes += 1
        os.utime(source, (self._writes, self._writes))

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for run in self._runs:
            run.end()
        self._folder.cleanup()


class Judge(ABC):
    """Decides whether a mutation is noticed."""

    copied: tuple[str, ...]
    """Files and folders of the project that a job needs."""
    limit: float
    """Seconds that a job may take."""
    enough: float
    """Share of the mutations that must be noticed."""
    noticing: frozenset[int]
    """Exit codes of a job that has noticed its mutation."""

    def __init__(self) -> None:
        self.broken: list[str] = []
        """Tests that fail without a mutation."""

    def prepare(self, bench: Bench, chosen: list[Mutation]) -> None:  # noqa: B027 - most judges have nothing to prepare
        """Called before the first job. Raises `MutationError` if no mutation can be judged."""

    @abstractmethod
    def job(self, mutation: Mutation) -> Job:
        """Return the job that judges a mutation."""

    def noticed(self, done: Done) -> bool:
        """Return whether a job has noticed its mutation. Raises `MutationError` if it has no result."""
        if done.code != PASSED and done.code not in self.noticing:
            raise MutationError(f"the judge cannot be run ({done.code}):\n{done.output[-2000:]}")
        return done.code != PASSED

    def details(self, done: Done) -> str:
        """Return lines to print after the result, each with a line break before it."""
        return ""
