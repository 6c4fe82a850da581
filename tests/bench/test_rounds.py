"""The order of rounds, what counts, and what the machine tells; with servers that do nothing."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench import run
from bench.loads.rows import READS, Compared, Row
from bench.loads.subject import Scale, Subject
from bench.report.results import Result
from bench.report.rounds import Plan, Progress, _measure_row
from bench.servers import against
from bench.servers.machine import Watch, calls_told, load_average, used
from bench.servers.stopping import Failed

RUN = Path(run.__file__)


class Idle:
    """A server that notes when it runs and when it is stopped."""

    def __init__(self) -> None:
        self.port, self.pid = 1, os.getpid()
        self.seen: list[str] = []

    def pause(self) -> None:
        self.seen.append("pause")

    def resume(self) -> None:
        self.seen.append("resume")

    def kill(self) -> None:
        self.seen.append("kill")


def test_only_the_measured_server_runs_and_the_first_round_does_not_count() -> None:
    order: list[tuple[str, int]] = []

    def measure(subject: Subject) -> dict[str, float]:
        order.append((subject.name, subject.scale.count))
        if subject.name == "java" and len(order) > 6:
            raise Failed("it is too slow")
        return {"rate": float(len(order)), "user_us": 1.0, "system_us": 1.0}

    row = Row("idle", READS, measure, (Compared("rate", "/s"),))
    plan = Plan([row], ("java", "bolide"), 3, Scale(count=1000))
    servers = {"java": Idle(), "bolide": Idle()}
    subjects = [Subject(name, server, plan.scale) for name, server in servers.items()]
    result = Result(row)
    progress = Progress(plan)
    for number in range(4):
        _measure_row(plan, number, result, subjects, progress)
    assert [name for name, _ in order[:6]] == ["bolide", "java", "java", "bolide", "bolide", "java"]
    assert [count for _, count in order] == [100, 100] + [1000] * (len(order) - 2)
    assert [len(figures) for figures in result.rounds.values()] == [2, 2]
    assert result.failures == ["idle: it is too slow"]
    assert all(server.seen == ["resume", "pause"] * (len(server.seen) // 2) for server in servers.values())


def test_processor_time_is_counted_for_each_message() -> None:
    before = used(os.getpid())
    watch = Watch(os.getpid())
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass
    figures = watch.end(1000, 0.0)
    assert (used(os.getpid()) - before).seconds >= 0.15
    assert figures["user_us"] + figures["system_us"] >= 150
    assert figures["others"] >= 0 and figures["load"] >= 0
    assert load_average() >= 0


def test_system_calls_are_read_from_the_table_of_strace() -> None:
    told = "    calls syscall\n--------- ----------------\n     1200 epoll_wait\n       30 writev\n     1230 total\n"
    assert calls_told(told) == {"epoll_wait": 1200, "writev": 30}


def test_a_revision_is_a_commit_or_a_python(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    assert against.python_of(str(python)) == str(python)
    with pytest.raises(Failed, match="no commit of this repository"):
        against.python_of("no-such-commit")
    with pytest.raises(Failed, match="has no Bolide"):
        against.describe("/bin/false")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--servers", "kafka"], "--servers is java,bolide or bolide, not kafka"),
        (["--rounds", "0"], "--rounds is 1 or more"),
        (["--only", "no such row"], "no row is called 'no such row'"),
        (["--against", "no-such-commit"], "no-such-commit is no commit"),
    ],
)
def test_a_wrong_command_line_is_told_in_a_sentence(words: list[str], told: str) -> None:
    done = subprocess.run([sys.executable, str(RUN), *words], capture_output=True, text=True, timeout=240)
    assert done.returncode == 2
    assert told in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def running_in(folder: Path) -> list[str]:
    """Command lines of the processes that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            found.append((process / "cmdline").read_text(encoding="utf-8", errors="replace"))
    return [words for words in found if str(folder) in words]


@pytest.mark.skipif(shutil.which("cc") is None, reason="the bench is built with a C compiler")
def test_an_interrupt_ends_all_that_was_started(tmp_path: Path) -> None:
    words = [
        "--servers",
        "bolide",
        "--only",
        "pull 32 of 128 B, 8",
        "--rounds",
        "1000",
        "--seconds",
        "0.2",
        "--page",
        str(tmp_path / "page"),
    ]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, str(RUN), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stderr is not None
        told = ""
        while "round 1 " not in told:  # a broker and the generator run
            line = child.stderr.readline()
            assert line, told
            told += line
        assert len(running_in(tmp_path)) >= 2  # this one and the broker
        child.send_signal(signal.SIGINT)
        rest = child.communicate(timeout=240)[1]
    assert child.returncode == 130
    assert "interrupted, and what was started is ended" in rest and "Traceback" not in rest
    assert running_in(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_quick_is_shorter_and_against_leaves_java_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--quick", "--only", "8x32"])
    plan = run.plan_of(run.arguments())
    assert (plan.servers, plan.rounds, plan.calls) == (["java", "bolide"], 1, False)
    monkeypatch.setattr("sys.argv", ["bench", "--against", os.path.realpath("/bin/sh")])
    plan = run.plan_of(run.arguments())
    assert (plan.servers, plan.rounds, plan.calls) == (["bolide", "before"], 3, True)
