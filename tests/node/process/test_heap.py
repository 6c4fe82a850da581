"""Freed memory stays with the process: an answer of a megabyte takes the pages of the one before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from proof.kit.waiting import PROCESS_PATIENCE

PROGRAM = """
import resource
from bolide.node.process.heap import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        answers = [b"x" * 1_200_000 for _ in range(4)]
        del answers
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

kept = keep_freed_memory()
faults()
print(int(kept), faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's choice")
def test_freed_pages_are_used_again() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=PROCESS_PATIENCE
    )
    kept, faults = map(int, done.stdout.split())
    if not kept:
        pytest.skip("another C library")
    assert faults < 2_000, "116,000 when each answer has new pages"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's choice")
@pytest.mark.parametrize(
    "choice", [{"MALLOC_MMAP_THRESHOLD_": "65536"}, {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=65536"}], ids=str
)
def test_an_operators_choice_stays(choice: dict[str, str]) -> None:
    """Answers are maps of their own by it, each with new pages."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        timeout=PROCESS_PATIENCE,
        env={**os.environ, **choice},
    )
    kept, faults = map(int, done.stdout.split())
    if not kept:
        pytest.skip("another C library")
    assert faults > 20_000
