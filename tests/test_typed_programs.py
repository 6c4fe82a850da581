"""The programs of README and docs, and the demo, pass a strict type checker: they are what a user copies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_programs_and_demo_pass_strict_mypy() -> None:
    checked = [sys.executable, "-m", "mypy", "--strict", "docs/programs", "demo"]
    outcome = subprocess.run(checked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
