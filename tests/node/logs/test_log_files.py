"""The log file of a daemon: rotated by size and age, its process's alone, and never a reason to stop."""

from __future__ import annotations

import logging
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bolide.errors import ConfigError
from bolide.namesrv.options import NamesrvOptions
from bolide.node.logs.log_files import FileLog, RotatedFile, log_file
from bolide.node.logs.logs import TextLines
from bolide.world.lines import WAITING
from proof.kit.waiting import wait_until

HOUR = 3600


def line(text: str, when: float = 1_800_000_000.0) -> logging.LogRecord:
    record = logging.LogRecord("bolide.broker", logging.INFO, "", 1, text, None, None)
    record.created = when
    return record


def texts(folder: Path) -> dict[str, list[str]]:
    return {file.name: file.read_text(encoding="utf-8").splitlines() for file in sorted(folder.iterdir())}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broker.log"


def test_a_full_file_gives_way_and_only_so_many_are_kept(path: Path) -> None:
    file = RotatedFile(str(path), 50, 0, 2)
    for number in range(8):
        file.handle(line(f"{number} " + "x" * 20))
    file.end()
    assert {name: [each[0] for each in lines] for name, lines in texts(path.parent).items()} == {
        "broker.log": ["6", "7"], "broker.log.1": ["4", "5"], "broker.log.2": ["2", "3"],
    }  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) & 0o137 == 0


def test_a_line_of_another_period_begins_a_file(path: Path) -> None:
    file = RotatedFile(str(path), 1 << 20, 1, 9)
    for hours in (0, 0.4, 1, 1.5, 2.9):
        file.handle(line(f"{hours}", 1_800_000_000 + hours * HOUR))
    file.end()
    assert texts(path.parent) == {"broker.log": ["2.9"], "broker.log.1": ["1", "1.5"], "broker.log.2": ["0", "0.4"]}


def test_a_day_begins_at_local_midnight() -> None:
    told = """
import sys
from bolide.node.logs.log_files import RotatedFile
file = RotatedFile(sys.argv[1], 1 << 20, 24, 9)
print(file._period_of(1_799_942_399), file._period_of(1_799_942_400), file._period_of(1_800_028_799))
"""
    periods = subprocess.run(
        [sys.executable, "-c", told, os.devnull], env={**os.environ, "TZ": "Etc/GMT-8"}, capture_output=True, text=True,
        check=True,
    ).stdout.split()  # fmt: skip
    # 1_799_942_400 is 2027-01-14T16:00:00Z, and midnight eight hours east of Greenwich.
    assert int(periods[0]) + 1 == int(periods[1]) == int(periods[2])


def test_a_start_continues_the_file_of_its_period(path: Path) -> None:
    for when in (0, 0.5, 1.5):
        file = RotatedFile(str(path), 1 << 20, 1, 9)
        file.handle(line(f"{when}", 1_800_000_000 + when * HOUR))
        file.end()
        os.utime(path, (1_800_000_000 + when * HOUR,) * 2)
    assert texts(path.parent) == {"broker.log": ["1.5"], "broker.log.1": ["0", "0.5"]}


def test_a_file_has_one_writer(path: Path) -> None:
    settings = NamesrvOptions(log_file=str(path))
    first = log_file(settings)
    with pytest.raises(ConfigError, match=f"logFile = {re.escape(str(path))} belongs to another server"):
        log_file(settings)
    first.close()
    log_file(settings).close()


def test_a_file_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"logFile = .*/none/broker.log cannot be written: No such file or directory"):
        log_file(NamesrvOptions(log_file=str(tmp_path / "none" / "broker.log")))


def test_close_flushes_all_lines(path: Path) -> None:
    handler = log_file(NamesrvOptions(log_file=str(path)))
    handler.setFormatter(TextLines())
    for number in range(5000):
        handler.handle(line(f"line {number}"))
    handler.close()
    handler.close()
    lines = texts(path.parent)["broker.log"]
    assert [each.rpartition(" ")[2] for each in lines] == [str(number) for number in range(5000)]
    assert all("INFO    bolide.broker: line" in each for each in lines)


class Slow(RotatedFile):
    """A file on a disk that takes nothing until it may."""

    def __init__(self, path: Path, may: threading.Event) -> None:
        self.may = may
        super().__init__(str(path), 1 << 30, 0, 1)

    def emit(self, record: logging.LogRecord) -> None:
        self.may.wait()
        super().emit(record)


def test_lines_that_a_slow_disk_cannot_take_are_counted(path: Path) -> None:
    may = threading.Event()
    handler = FileLog(Slow(path, may))
    for number in range(WAITING + 100):
        handler.handle(line(f"{number}"))
    assert handler.lines.dropped == 100
    may.set()
    note = "100 log lines were dropped here, because they could not be written in time"
    wait_until(lambda: note in texts(path.parent)["broker.log"], "the lines to be written")
    handler.handle(line("last"))
    handler.close()
    assert texts(path.parent)["broker.log"] == [*(f"{number}" for number in range(WAITING)), note, "last"]


def test_a_process_whose_log_file_hangs_ends(path: Path) -> None:
    told = """
import logging, sys, threading
from bolide.node.logs.log_files import FileLog, RotatedFile
class Hung:
    def wait(self, *arguments): threading.Event().wait()
    close = flush = seek = tell = write = wait
file = RotatedFile(sys.argv[1], 1 << 20, 0, 1)
file.stream.close()
file.stream = Hung()
logging.getLogger().addHandler(FileLog(file))
logging.getLogger("bolide.node").warning("stuck")
print("went on")
"""
    done = subprocess.run(
        [sys.executable, "-c", told, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "went on\n"


def test_failed_write_and_its_end_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    file = RotatedFile(str(folder / "broker.log"), 30, 0, 2)
    file.handle(line("x" * 25))
    folder.rename(tmp_path / "gone")
    for _ in range(3):
        file.handle(line("y" * 25))
    (tmp_path / "gone").rename(folder)
    for _ in range(2):
        file.handle(line("z" * 25))
    file.end()
    told = [each.getMessage() for each in caplog.records]
    assert len(told) == 2 and "so lines are lost: [Errno 2] No such file" in told[0] and told[1].endswith("again")
    assert texts(folder) == {"broker.log": ["z" * 25], "broker.log.1": ["z" * 25], "broker.log.2": ["x" * 25]}


def test_a_daemon_writes_both(path: Path) -> None:
    told = """
import logging, sys
from bolide.namesrv.options import NamesrvOptions
from bolide.node.logs.logs import configure_logging, start_logging
start_logging()
configure_logging(NamesrvOptions(log_file=sys.argv[1], log_format="json"))
logging.getLogger("bolide.node").info("once")
"""
    done = subprocess.run([sys.executable, "-c", told, str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == path.read_text(encoding="utf-8") and '"message": "once"' in done.stderr
