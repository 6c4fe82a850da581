"""Puts each listed wrong into a copy of the project, one at a time, and runs the tests that must notice it.

    python -m tools.run_mutations                # all of them, two at a time: `make mutations`
    python -m tools.run_mutations --only locks   # those whose subject or name holds a text

Prints what each came to and names the survivors. Exits with 1 when fewer than 95 in 100 are noticed, when a test fails
without any wrong, or when an entry fits the sources no more. The checkout is never touched. Each run is a fork of this
process, which has imported the test tools and nothing of the project: that is most of a short run's time.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import hypothesis  # noqa: F401 - for the forks, which then need not import it
import pytest

from tests.mutations.listed import ROOT, Mutation, MutationError, mutations

ENOUGH = 0.95
TEST_SECONDS = 60
"""A test that a wrong makes run on has noticed it."""
RUN_SECONDS = 300
WHOLE_SECONDS = 3600
"""All the tests at once, without any wrong."""
POLL_SECONDS = 0.01
PASSED, FAILED, BROKE, KILLED, CRASHED = 0, 1, 3, -9, 70  # pytest's exit codes, and ours for a run without an end
NOTICED = (FAILED, BROKE, KILLED)
"""A test that runs out of time while it cleans up may break pytest itself."""
COPIED = ("src", "tests", "proof", "tools", "docs", "pyproject.toml")


class Run:
    """One run of tests on a copy, in a process of its own."""

    def __init__(
        self,
        copy: Path,
        words: Iterable[str],
        mutation: Mutation | None = None,
        whole: str = "",
        limit: float = RUN_SECONDS,
    ) -> None:
        self.copy = copy
        self.limit = limit
        self.mutation = mutation
        self.whole = whole
        """The source without the wrong."""
        self.output = copy / "output"
        self.begin = time.monotonic()
        self.pid = os.fork()
        with suppress(PermissionError):  # either of the two is first
            os.setpgid(self.pid, 0)
        if self.pid == 0:
            code = CRASHED
            try:
                code = run_tests(copy, list(words), self.output)
            except BaseException:  # nothing of the parent may run in the fork, whatever happens
                traceback.print_exc()
            finally:
                os._exit(code)

    def poll(self) -> int | None:
        """The exit code once it has ended, else None; a run without an end is ended."""
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended:
            return self.end()
        if time.monotonic() - self.begin > self.limit:
            self.end()
            return KILLED
        return None

    def end(self) -> int:
        """End it, with what its tests started, and return its exit code."""
        os.killpg(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def run_tests(copy: Path, words: list[str], output: Path) -> int:
    """In the fork: pytest on a copy, with what it says in a file; its exit code."""
    with output.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    os.environ["BOLIDE_IMPL"] = "python"
    os.environ["PYTHONPATH"] = str(copy / "src")  # for processes that tests start
    sys.path = [str(copy / "src"), *(path for path in sys.path if path not in ("", str(ROOT)))]
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "tools", "proof", "bolide")]:
        del sys.modules[name]
    usual = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--timeout={TEST_SECONDS}"]
    usual += [f"--basetemp={copy / 'tmp'}", "-o", "faulthandler_timeout=0"]  # it crashed where a wrong spun threads
    usual += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was imported for the forks
    try:
        code = int(pytest.main([*usual, *words]))
    except (pytest.PytestUnraisableExceptionWarning, ExceptionGroup):
        traceback.print_exc()
        code = FAILED  # the wrong left a socket open, say, which pytest tells when it is about to end
    sys.stdout.flush()
    return code


class Bench:
    """Copies of the project, as many as work at a time."""

    def __init__(self, folder: Path, copies: int) -> None:
        self.broken: list[str] = []
        """Tests that fail without any wrong: they say nothing."""
        self._writes = 0
        self._runs: list[Run] = []
        self._free = [folder / str(number) for number in range(copies)]
        for copy in self._free:
            copy.mkdir()
            for name in COPIED:
                if (ROOT / name).is_dir():
                    shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
                else:
                    shutil.copy(ROOT / name, copy / name)

    def check_tests(self, chosen: list[Mutation]) -> None:
        """Find the tests that fail as it is. Raises MutationError when they cannot be run."""
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        parts = [part for part in (tests[first :: len(self._free)] for first in range(len(self._free))) if part]
        for copy, part in zip(self._free, parts, strict=False):
            self._runs.append(Run(copy, [*part, "-rfE"], limit=WHOLE_SECONDS))
        while self._runs:
            run = self._runs[0]
            while (code := run.poll()) is None:
                time.sleep(POLL_SECONDS)
            self._runs.remove(run)
            said = run.output.read_text(encoding="utf-8")
            if code not in (PASSED, FAILED):
                raise MutationError(f"the tests cannot be run ({code}):\n{said[-2000:]}")
            self.broken += re.findall(r"^(?:FAILED|ERROR) (\S+)", said, re.MULTILINE)

    def run(self, chosen: list[Mutation]) -> Iterator[tuple[Mutation, bool]]:
        """Each wrong, in the order of their ends, with whether a test noticed it. Raises MutationError."""
        left = list(reversed(chosen))
        while left or self._runs:
            while left and self._free:
                self._runs.append(self._start(self._free.pop(), left.pop()))
            time.sleep(POLL_SECONDS)
            for run in list(self._runs):
                code = run.poll()
                if code is None or run.mutation is None:
                    continue
                self._runs.remove(run)
                self._write(run.copy / "src/bolide" / run.mutation.file, run.whole)
                self._free.append(run.copy)
                if code != PASSED and code not in NOTICED:
                    said = run.output.read_text(encoding="utf-8")
                    raise MutationError(f"{run.mutation.title}: the tests cannot be run ({code}):\n{said[-2000:]}")
                yield run.mutation, code != PASSED

    def end(self) -> None:
        """End the runs that are left."""
        for run in self._runs:
            run.end()

    def _write(self, source: Path, text: str) -> None:
        """Another time at each write: byte code counts as fresh for a source of the same size and second."""
        source.write_text(text, encoding="utf-8")
        self._writes += 1
        os.utime(source, (self._writes, self._writes))

    def _start(self, copy: Path, mutation: Mutation) -> Run:
        source = copy / "src/bolide" / mutation.file
        whole = source.read_text(encoding="utf-8")
        self._write(source, mutation.applied_to(whole))
        return Run(copy, [*mutation.tests, "-x", *(f"--deselect={test}" for test in self.broken)], mutation, whole)


def show(chosen: list[Mutation], survivors: list[Mutation], seconds: float) -> None:
    """The table by subject, and the survivors by name."""
    all_of = Counter(mutation.subject for mutation in chosen)
    left = Counter(mutation.subject for mutation in survivors)
    width = max(map(len, all_of))
    print(f"\n{'subject':{width}}  mutations  noticed")
    for subject, count in all_of.items():
        print(f"{subject:{width}}  {count:9}  {count - left[subject]:7}")
    share = 1 - len(survivors) / len(chosen)
    print(f"{'all':{width}}  {len(chosen):9}  {len(chosen) - len(survivors):7}  {share:.1%} in {seconds:.0f} s")
    for mutation in survivors:
        print(f"survived: {mutation.title} ({mutation.file}; {', '.join(mutation.tests)})")


def main(arguments: list[str]) -> int:
    """Run the list; the exit code."""
    parser = argparse.ArgumentParser(description="Show that the tests notice each listed mutation of the sources.")
    parser.add_argument("--only", default="", help="those whose subject or name holds this text")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time (2)")
    options = parser.parse_args(arguments)
    begin = time.monotonic()
    survivors: list[Mutation] = []
    try:
        chosen = [mutation for mutation in mutations() if options.only in mutation.title]
        if not chosen:
            raise MutationError(f"no mutation has {options.only!r} in its name")
        with tempfile.TemporaryDirectory(prefix="bolide-mutations-") as folder:
            bench = Bench(Path(folder), options.workers)
            try:
                bench.check_tests(chosen)
                for mutation, noticed in bench.run(chosen):
                    print(f"{'noticed ' if noticed else 'SURVIVED'}  {mutation.title}", flush=True)
                    if not noticed:
                        survivors.append(mutation)
            finally:
                bench.end()
    except MutationError as error:
        print(f"mutations: {error}", file=sys.stderr)
        return 1
    show(chosen, survivors, time.monotonic() - begin)
    for test in bench.broken:
        print(f"fails without any mutation, and was left out: {test}")
    return 0 if not bench.broken and len(survivors) <= (1 - ENOUGH) * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
