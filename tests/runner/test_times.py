"""Measurement and report of a run's time."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.runner.processor_time import ProcessorTime
from tests.runner.times import TimeReport, layer_of

WORK = "import time\nwhile time.process_time() < 0.5: pass\n"


def report(name: str, duration: float, processor_s: float, layer: str) -> Any:
    return SimpleNamespace(nodeid=name, duration=duration, processor_s=processor_s, layer=layer)


def test_clock_time_is_divided_by_workers_and_processor_time_is_not() -> None:
    found = TimeReport(workers=4)
    found.pytest_runtest_logreport(report("a.py::test_java@java", 120.0, 10.0, "Java"))
    found.pytest_runtest_logreport(report("a.py::test_java@java", 120.0, 20.0, "Java"))
    found.pytest_runtest_logreport(report("a.py::test_quick", 12.0, 11.0, "quick"))
    lines = found.lines(took=90.0)
    assert [line.split() for line in lines if line.startswith(("Java", "quick"))] == [
        ["quick", "1", "0.1", "2", "11"],
        ["Java", "1", "1.0", "5", "30"],
    ]
    assert "  240.0    30.0  a.py::test_java" in lines
    assert any("1.5 minutes, 4 workers" in line for line in lines) or sys.platform != "linux"


@pytest.mark.parametrize(
    ("markers", "layer"),
    [((), "quick"), (("slow",), "processes"), (("crash",), "processes"), (("java", "slow"), "Java"),
     (("java", "spark"), "Spark")],
)  # fmt: skip
def test_the_dearest_need_of_a_test_is_its_layer(markers: tuple[str, ...], layer: str) -> None:
    item: Any = SimpleNamespace(get_closest_marker=lambda name: name in markers or None)
    assert layer_of(item) == layer


def test_processor_time_covers_children_that_have_ended() -> None:
    spent = ProcessorTime()
    subprocess.run([sys.executable, "-c", WORK], check=True)
    assert spent.since_last(0.0) >= 0.4  # the clock has ticks of 10 ms
    assert spent.since_last(0.0) < 0.4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_processor_time_covers_children_that_still_run_and_counts_them_once() -> None:
    spent = ProcessorTime()
    command = [sys.executable, "-c", f"{WORK}print('done', flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        first = spent.since_last(1.0)
        child.communicate("\n")
    assert first >= 0.4
    assert spent.since_last(0.0) < 0.4
