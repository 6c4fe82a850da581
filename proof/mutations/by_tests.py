"""Judges mutations by tests: one of the tests that a mutation names must fail."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final

import hypothesis  # noqa: F401 - imported once, for all forks
import pytest

from proof.mutations.bench import FAILED, KILLED, PASSED, Bench, Job, Judge
from proof.mutations.mutation import Mutation, MutationError

TEST_SECONDS: Final = 60
"""A test that runs longer has noticed the mutation."""
WHOLE_SECONDS: Final = 3600
"""Limit for all tests without a mutation."""
BROKE: Final = 3
"""pytest's exit code of an internal error, which a test may cause that reaches its limit while it cleans up."""


class Tests(Judge):
    """Judge of the mutations that have tests."""

    copied = ("src", "tests", "proof", "tools", "docs", "pyproject.toml")
    limit = 300.0
    enough = 0.95
    noticing = frozenset({FAILED, BROKE, KILLED})

    def prepare(self, bench: Bench, chosen: list[Mutation]) -> None:
        """Run the tests without a mutation. Failing tests are excluded from the jobs."""
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        parts = [part for part in (tests[first :: bench.copies] for first in range(bench.copies)) if part]
        print(f"without a mutation: {', '.join(tests)}", flush=True)
        for done in bench.run([Job(partial(run_tests, [*part, "-rfE"])) for part in parts], WHOLE_SECONDS):
            if done.code not in (PASSED, FAILED):
                raise MutationError(f"the tests cannot be run ({done.code}):\n{done.output[-2000:]}")
            self.broken += re.findall(r"^(?:FAILED|ERROR) (\S+)", done.output, re.MULTILINE)
        for test in self.broken:
            print(f"excluded, because it fails without a mutation: {test}", flush=True)

    def job(self, mutation: Mutation) -> Job:
        """Return the run of a mutation's tests, up to the first that fails."""
        words = [*mutation.tests, "-x", *(f"--deselect={test}" for test in self.broken)]
        return Job(partial(run_tests, words), mutation)


def run_tests(words: Iterable[str], copy: Path) -> int:
    """Run pytest with these arguments. Returns its exit code."""
    usual = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", f"--timeout={TEST_SECONDS}"]
    usual += [f"--basetemp={copy / 'tmp'}", "-o", "faulthandler_timeout=0"]  # it crashed when a mutation spun threads
    usual += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the parent has imported plug-ins already
    try:
        return int(pytest.main([*usual, *words]))
    except (pytest.PytestUnraisableExceptionWarning, ExceptionGroup):
        traceback.print_exc()
        return FAILED  # pytest raises at its end if the mutation left a socket open, for example
