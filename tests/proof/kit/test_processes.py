"""Child processes: the ready line, commands and their results, the end."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from proof.kit.processes import AnsweringProcess, ChildProcess, ReportingProcess
from proof.kit.waiting import wait_until


def python(code: str) -> list[str]:
    return [sys.executable, "-uc", code]


def test_the_ready_line_is_returned_and_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for port in (1, 2):
        process = ChildProcess(python(f"print('warming up\\nready it 127.0.0.1:{port}')\ninput()"), log, fed=True)
        assert process.wait_ready() == f"ready it 127.0.0.1:{port}"
        process.close_input()
        assert process.wait() == 1  # EOFError
    assert log.read_text().count("ready it") == 2 and "127.0.0.1:1" not in process.output()


def test_the_error_has_the_output_of_a_child_that_ends_before_it_is_ready(tmp_path: Path) -> None:
    process = ChildProcess(python("print('no room'); raise SystemExit(3)"), tmp_path / "log")
    with pytest.raises(AssertionError, match=r"ended \(3\):\nno room"):
        process.wait_ready()


def test_a_child_that_does_not_become_ready_is_killed(tmp_path: Path) -> None:
    process = ChildProcess(python("input()"), tmp_path / "log", fed=True)
    with pytest.raises(AssertionError, match="waited 0.05 s in vain for 'ready ' in"):
        process.wait_ready(seconds=0.05)
    assert process.status == -signal.SIGKILL


def test_kill_reaches_the_children_of_a_child(tmp_path: Path) -> None:
    code = "import subprocess, sys; print('ready', subprocess.Popen([sys.executable, '-c', 'input()']).pid); input()"
    process = ChildProcess(python(code), tmp_path / "log", fed=True)
    grandchild = Path("/proc") / process.wait_ready().split()[1]
    process.kill()
    wait_until(lambda: not grandchild.exists() or "Z" in (grandchild / "stat").read_text().split(), "its end")


def test_a_child_reports_values_and_its_ready_line(tmp_path: Path) -> None:
    code = """
print('{"a": 1, "b": 2}\\nready kind 127.0.0.1:5\\nnoise\\n{"a": 3}')
raise SystemExit(len(input()))
"""
    process = ReportingProcess("reporter", python(code), tmp_path)
    wait_until(lambda: process.said == {"a": 3, "b": 2})
    assert process.ready == "kind 127.0.0.1:5" and process.failure() == ""
    assert process.tell("four")
    assert process.wait() == 4 and not process.tell("more")
    assert process.failure() == f"reporter ended with status 4: it wrote nothing to {process.log}"


def test_results_are_objects_and_other_lines_are_ignored() -> None:
    program = AnsweringProcess(python("for line in iter(input, 'end'): print('noise\\n{\"got\": \"%s\"}' % line)"))
    assert [program.ask(word) for word in ("one", "two")] == [{"got": "one"}, {"got": "two"}]
    with pytest.raises(AssertionError, match=r"the program ended \(0\) at end: noise \| noise"):
        program.ask("end")


def test_a_program_without_a_result_is_killed() -> None:
    program = AnsweringProcess(python("input(); input()"))
    with pytest.raises(AssertionError, match=r"no answer within 0.05 s to well\?"):
        program.ask("well?", 0.05)
    assert program.status == -signal.SIGKILL
