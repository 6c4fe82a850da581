"""The cells of the notebooks run, one after the other, and show what the text beside them says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"
SECONDS = 300
RUNNER = """
import contextlib, io, json, sys
names = {"__name__": "__main__"}
told = []
for number, code in enumerate(json.load(sys.stdin)):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, f"cell {number}", "exec"), names)
    told.append(out.getvalue())
print(json.dumps(told))
"""
pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-processes")]


def shown(name: str) -> list[str]:
    """What each cell of code prints, in an interpreter of its own."""
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)  # would grow old
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(["".join(cell["source"]) for cell in cells]),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},  # as in an environment that is activated
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: list[str] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_flights_through_a_topic() -> None:
    told = shown("pipeline")
    assert told[0].startswith("name server: 127.0.0.1:")
    assert told[1] == "20,000 messages are stored\n"
    assert "dep_delay" in told[2] and " UA|" in told[3]
    assert "departures of UA and DL were more than an hour late" in told[4] and not told[4].startswith("0 ")
    assert told[5] == "20,000 rows\n2 rows\n"


def test_a_look_into_a_store() -> None:
    told = shown("store")
    assert "orders" in told[2] and "rmq_sys_wheel_timer" in told[2]
    assert told[3].count("order-") == 6
    assert told[4] == "0 units lead to no message\n7 of 7 messages are in a queue\n"
    assert "sum(size)" in told[5]
