"""The matrix of what a run has proven, printed at its end; also when several workers shared the tests."""

from __future__ import annotations

from collections import Counter

import pytest

from proof.interop.matrix import Cell, as_text, cells_of

PROPERTY = "matrix"
"""Reports travel from a worker with the properties of their test; so do the cells."""


class Matrix:
    """Counts by cell what passed and what failed."""

    def __init__(self) -> None:
        self.passed: Counter[Cell] = Counter()
        self.failed: Counter[Cell] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.user_properties.extend((PROPERTY, list(cell)) for cell in cells_of(item))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            cells = [Cell(*value) for name, value in report.user_properties if name == PROPERTY]
            (self.passed if report.passed else self.failed).update(cells)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.passed or self.failed:
            terminalreporter.section("compatibility matrix")
            for line in as_text(self.passed, self.failed):
                terminalreporter.write_line(line)
