"""Runs a failed test a second time, alone, when all others have ended.

A test that fails twice fails the run. A test that passes the second time is flaky: the run prints its name and its
first traceback, and does not fail. Tests that judge loss, order, duplicates, crashes or exactly-once have the marker
`judges`: one failure of such a test fails the run, and the runner copies the temporary folder of the test.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.leaks import LEFT

MOST = 20
"""With more failures than this the run is broken, not flaky: no test runs a second time."""
KEPT = Path("build") / "failed"
JUDGES = "judges"
FLAKY = "flaky"


class Verdicts:
    """Marks the reports of tests that judge, and copies the folder of a failed one. Use one instance per worker."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Called for each phase of a test."""
        report = yield
        leak = report.failed and report.longreprtext.startswith(LEFT)  # says nothing of what the test judges
        report.judges = item.get_closest_marker(JUDGES) is not None and not leak
        if report.failed and report.judges:
            kept = keep_folder(item)
            if kept is not None:
                report.sections.append(("folder", f"kept: {kept}"))
        return report


def keep_folder(item: pytest.Item) -> Path | None:
    """Copy the temporary folder of a test to build/failed. Return the copy, or None if the test has no folder."""
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if not isinstance(folder, Path) or not folder.is_dir():
        return None
    kept = item.config.rootpath / KEPT / re.sub(r"[^\w.-]+", "-", item.nodeid.removeprefix("tests/"))
    shutil.rmtree(kept, ignore_errors=True)
    # A running process may delete a file during the copy, and a socket cannot be copied.
    try:
        shutil.copytree(folder, kept, symlinks=True)
    except shutil.Error as error:
        sys.stderr.write(f"{item.nodeid}: some files of {folder} are not in {kept}: {error}\n")
    return kept


class Again:
    """Runs failed tests again, in the process that prints. `arguments` are pytest's for each of them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.failed: dict[str, list[pytest.TestReport]] = {}
        self.second: dict[str, str] = {}
        """Output of the second run, by test, if it failed again."""
        self.flaky: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the failed phases by test."""
        if report.failed:
            self.failed.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Called around the loop that runs all tests, or hands them to workers."""
        result = yield
        may_run = [name for name, reports in self.failed.items() if not any(map(judges, reports))]
        if not session.shouldstop and len(self.failed) <= MOST:
            for name in may_run:
                self._run(session, name)
        return result

    def _run(self, session: pytest.Session, name: str) -> None:
        test = name.partition("@")[0]  # the worker appends the group
        command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "--tb=short", test]
        done = subprocess.run(
            command, cwd=self.config.rootpath, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        if done.returncode:
            self.second[test] = done.stdout
            return
        reports = self.failed[name]
        self.flaky[test] = reports
        session.testsfailed -= len(reports)
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        for category in ("failed", "error"):
            kept = [report for report in terminal.stats.get(category, []) if report not in reports]
            terminal.stats[category] = kept
            if not kept:
                del terminal.stats[category]
        terminal.stats.setdefault(FLAKY, []).append(reports[0])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the flaky tests, each with its first traceback, and say which others were run twice."""
        for test, reports in self.flaky.items():
            terminalreporter.section(f"flaky: {test}")
            terminalreporter.write_line(reports[0].longreprtext)
            for _, text in reports[0].sections:
                terminalreporter.write_line(text)
        for test, output in self.second.items():
            terminalreporter.section(f"failed again, alone: {test}")
            terminalreporter.write_line(output)
        for name, reports in self.failed.items():
            if any(map(judges, reports)):
                terminalreporter.write_line(f"not run again, because it judges: {name.partition('@')[0]}")


def judges(report: pytest.TestReport) -> bool:
    """Return whether one failure of this test fails the run."""
    return bool(getattr(report, JUDGES, False))


def register(config: pytest.Config) -> None:
    """Register the plug-ins: workers mark reports, the controller repeats failed tests if --again is set."""
    config.pluginmanager.register(Verdicts(), "bolide-verdicts")
    if config.getoption("again") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Again(config), "bolide-again")
