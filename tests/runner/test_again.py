"""Runs pytest with the plug-in that repeats failed tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.runner import again

def pytest_addoption(parser):
    parser.addoption("--again", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "judges: a verdict")
    again.register(config)
"""
FLAKY = """
import os, pathlib
def test_flaky():
    mark = pathlib.Path("ran")
    first = not mark.exists()
    mark.touch()
    assert not first, "the first time"
"""
BROKEN = "def test_broken():\n    assert 1 == 2\n"
GOOD = "def test_good():\n    pass\n"
TEARDOWN = """
import pathlib, pytest
@pytest.fixture
def left_open():
    yield
    mark = pathlib.Path("ended")
    first = not mark.exists()
    mark.touch()
    assert not first, "left open"

def test_with_a_teardown(left_open):
    pass
"""
JUDGE = """
import pathlib, pytest
@pytest.mark.judges
def test_nothing_is_lost(tmp_path):
    (tmp_path / "journal").write_text("7 of 8")
    with open("runs", "a") as runs:
        runs.write("x")
    assert 7 == 8
"""


def run(folder: Path, *sources: str, workers: int = 2) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    for number, source in enumerate(sources):
        (folder / f"test_{number}.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"-n{workers}", "--again", "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_flaky_test_is_named_and_does_not_fail_the_run(tmp_path: Path, workers: int) -> None:
    done = run(tmp_path, FLAKY, GOOD, workers=workers)
    assert done.returncode == 0, done.stdout
    assert "flaky: test_0.py::test_flaky" in done.stdout
    assert "AssertionError: the first time" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed, 1 flaky")


def test_a_teardown_that_fails_once_is_flaky(tmp_path: Path) -> None:
    done = run(tmp_path, TEARDOWN)
    assert done.returncode == 0, done.stdout
    assert "flaky: test_0.py::test_with_a_teardown" in done.stdout


def test_a_test_that_fails_twice_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, FLAKY, BROKEN, GOOD)
    assert done.returncode == 1, done.stdout
    assert "failed again, alone: test_1.py::test_broken" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed, 1 flaky")


def test_a_failed_judge_runs_once_and_leaves_its_folder(tmp_path: Path) -> None:
    done = run(tmp_path, JUDGE, GOOD)
    assert done.returncode == 1, done.stdout
    assert (tmp_path / "runs").read_text() == "x"
    assert "not run again, because it judges: test_0.py::test_nothing_is_lost" in done.stdout
    (kept,) = (tmp_path / "build" / "failed").iterdir()
    assert (kept / "journal").read_text() == "7 of 8"
    assert f"kept: {kept}" in done.stdout


def test_many_failures_are_not_repeated(tmp_path: Path) -> None:
    done = run(tmp_path, "".join(f"def test_{n}():\n    assert 1 == 2\n" for n in range(21)))
    assert done.returncode == 1, done.stdout
    assert "failed again" not in done.stdout
