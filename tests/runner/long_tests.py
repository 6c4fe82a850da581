"""Selects among the tests marked `long`: CI runs a quarter, `make interop` and `make spark-long` run all.

`make test` runs no long test. Each claim of a long test is also checked by a cheaper test in `make test`. CI's quarter
follows from the commit, so CI finds a regression that only a long test notices within a few commits.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import pytest

CHOICES = ("none", "quarter", "all")
Named = TypeVar("Named")


def quarter_of(commit: str) -> int:
    """Return which quarter of the long tests belongs to a commit, from its hash in hexadecimal digits."""
    return int(commit, 16) % 4


def chosen(tests: Sequence[Named], choice: str, commit: str) -> list[Named]:
    """Return the long tests to run. Neighbours in the list fall into different quarters."""
    if choice == "quarter":
        return list(tests[quarter_of(commit) :: 4])
    return list(tests) if choice == "all" else []


def head_commit(root: Path) -> str:
    """Return the hash of the commit that is checked out. Raises `pytest.UsageError` outside a checkout."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise pytest.UsageError(f"--long=quarter needs a git checkout: {done.stderr.strip()}")
    return done.stdout.strip()


def deselect(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Remove the long tests that this run leaves out."""
    choice = config.getoption("long")
    long = sorted((item for item in items if item.get_closest_marker("long")), key=lambda item: item.nodeid)
    if choice == "all" or not long:
        return
    commit = head_commit(config.rootpath) if choice == "quarter" else "0"
    kept = set(chosen(long, choice, commit))
    left_out = [item for item in long if item not in kept]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]
