"""Report of a run's time: by layer, the longest tests, and the idle share of the processors.

A worker adds the processor time of each phase and the layer of the test to its reports; the controller sums them up.
The clock time of a layer is the sum over its tests, divided by the number of workers. All layers and the start then
add up to the time of the run.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.runner.processor_time import ProcessorTime

LONGEST = 15
BUDGET_MINUTES = {"quick": 2, "processes": 4, "Spark": 5, "Java": 5}
"""Aim for each layer of `make test` on two processors. A run that takes longer says so and does not fail."""
ATTRIBUTES = ("processor_s", "layer")
STAT = Path("/proc/stat")


def layer_of(item: pytest.Item) -> str:
    """Return the layer of a test, from the most expensive resource that its markers name."""
    if item.get_closest_marker("spark"):
        return "Spark"
    if item.get_closest_marker("java"):
        return "Java"
    if item.get_closest_marker("slow") or item.get_closest_marker("crash"):
        return "processes"
    return "quick"


class PhaseTimes:
    """Adds the processor time of its phase to each report. Use one instance per worker."""

    def __init__(self) -> None:
        self._processor = ProcessorTime()

    def pytest_collection_finish(self) -> None:
        """Exclude imports and collection, which belong to no test."""
        self._processor.since_last(0.0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Time between two phases belongs to the later one."""
        report = yield
        report.processor_s = round(self._processor.since_last(call.duration), 3)
        report.layer = layer_of(item)
        return report


class TimeReport:
    """Sums up the reports of all workers and prints the tables at the end of a run."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.began = time.monotonic()
        self.first_test = 0.0
        self._idle = idle_seconds()
        self.clock: Counter[str] = Counter()
        """Seconds by test."""
        self.processor: Counter[str] = Counter()
        self.layers: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a phase to the sums."""
        if not self.first_test:
            self.first_test = time.monotonic() - report.duration
        name = report.nodeid.partition("@")[0]
        self.clock[name] += report.duration
        self.processor[name] += getattr(report, "processor_s", 0.0)
        self.layers[name] = getattr(report, "layer", "quick")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the tables, unless no test ran."""
        if self.clock:
            terminalreporter.section("time")
            for line in self.lines(time.monotonic() - self.began):
                terminalreporter.write_line(line)

    def lines(self, took: float) -> list[str]:
        """Return the tables of a run that took this many seconds."""
        tests = Counter(self.layers.values())
        rows = [f"{'layer':10}  tests  minutes  of   processor s"]
        rows.append(f"{'start':10}  {'':5}  {(self.first_test - self.began) / 60:7.1f}")
        for layer, budget in BUDGET_MINUTES.items():
            names = [name for name, its in self.layers.items() if its == layer]
            if names:
                minutes = sum(self.clock[name] for name in names) / 60 / self.workers
                spent = sum(self.processor[name] for name in names)
                rows.append(f"{layer:10}  {tests[layer]:5}  {minutes:7.1f}  {budget:3}  {spent:11.0f}")
        rows.append(f"longest {min(LONGEST, len(self.clock))} tests: seconds by the clock, of a processor")
        rows += [
            f"{clock:7.1f}  {self.processor[name]:6.1f}  {name}" for name, clock in self.clock.most_common(LONGEST)
        ]
        idle = idle_seconds()
        if idle is not None and self._idle is not None:
            processors = os.cpu_count() or 1
            share = max(0.0, idle - self._idle) / processors / took
            rows.append(f"{took / 60:.1f} minutes, {self.workers} workers; {processors} processors idle {share:.0%}")
        return rows


def idle_seconds() -> float | None:
    """Return the seconds that all processors have been idle since the machine started, or None if it does not say."""
    try:
        fields = STAT.read_text(encoding="ascii").split(maxsplit=6)
    except OSError:
        return None
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")


def register(config: pytest.Config) -> None:
    """Register the plug-ins of this process: a worker measures, the controller prints if --times is set."""
    workers: Any = config.getoption("numprocesses", None) or 0
    in_worker = hasattr(config, "workerinput")
    if in_worker or not workers:
        config.pluginmanager.register(PhaseTimes(), "bolide-phase-times")
    if not in_worker and config.getoption("times"):
        config.pluginmanager.register(TimeReport(max(1, int(workers))), "bolide-time-report")
