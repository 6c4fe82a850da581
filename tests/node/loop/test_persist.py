"""Tables as files: written off the loop, the newest content last, the copy before used when the file is broken."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.rows import Text
from bolide.broker.core.service import Table
from bolide.node.loop.persist import STEP_S, ConfigFiles
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.store.errors import StoreDamaged
from bolide.testing.files import SimulatedFiles


class Stored(Table):
    def __init__(self, content: bytes = b"") -> None:
        super().__init__("topics")
        self.content = content

    def encode(self) -> bytes:
        return self.content

    def load(self, data: bytes) -> None:
        if b"broken" in data:
            raise ValueError("broken")
        self.content = data


class Idle:
    """A pool whose work is done when the test says so."""

    def __init__(self) -> None:
        self.work: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        self.work.append((function, arguments))

    def run_one(self) -> None:
        function, arguments = self.work.pop(0)
        function(*arguments)


def configs(folder: Path, table: Table) -> ConfigFiles:
    return ConfigFiles(RealFiles(), str(folder), {"topics": table}, lambda told: told())


def test_a_table_is_written_and_found_again(tmp_path: Path) -> None:
    table, told = Stored(b"one"), list[str]()
    with ThreadPoolExecutor(1) as pool:
        first = configs(tmp_path, table)
        assert first.load() == []
        first.write({"topics"}, pool, told.append)
    assert told == [""]
    again = Stored()
    assert configs(tmp_path, again).load() == ["topics"]
    assert again.content == b"one"


def test_the_copy_before_is_used_when_the_file_is_broken_or_empty(tmp_path: Path) -> None:
    for spoilt in (b"broken", b"", b"\0\0\0\n"):
        (tmp_path / "topics.json").write_bytes(spoilt)
        (tmp_path / "topics.json.bak").write_bytes(b"older")
        table = Stored()
        assert configs(tmp_path, table).load() == ["topics"]
        assert table.content == b"older"


def test_changes_during_a_write_are_written_once_more_and_last(tmp_path: Path) -> None:
    table, pool = Stored(b"one"), Idle()
    told: list[bytes] = []
    files = configs(tmp_path, table)
    files.load()

    def write(content: bytes) -> None:
        table.content = content
        files.write({"topics"}, pool, lambda _: told.append(content))  # type: ignore[arg-type] # a pool as far as needed

    write(b"one")
    write(b"two")
    write(b"three")
    assert len(pool.work) == 1
    pool.run_one()
    assert (tmp_path / "topics.json").read_bytes() == b"one" and len(pool.work) == 1
    assert told == [b"one"]
    pool.run_one()
    assert (tmp_path / "topics.json").read_bytes() == b"three" and pool.work == []
    assert (tmp_path / "topics.json.bak").read_bytes() == b"one"
    assert told == [b"one", b"two", b"three"]


def test_who_waits_hears_of_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    told: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        files = ConfigFiles(RealFiles(), str(tmp_path / "none"), {"topics": Stored(b"one")}, lambda ready: ready())
        files.write({"topics", "nothing"}, pool, told.append)
        files.write({"nothing"}, pool, told.append)
    assert sorted(told)[0] == "" and "none/topics.json could not be written" in sorted(told)[1]


class Long(Stored):
    """A table that is encoded in steps of `ROWS_AT_ONCE`, and hears when it is written."""

    def __init__(self, steps: int) -> None:
        super().__init__(b"whole")
        self.steps = steps
        self.left = 0
        self.heard: list[str] = []

    def begin(self) -> None:
        self.left = self.steps
        self.heard.append("begin")

    def step(self, most: int) -> bool:
        end = time.monotonic() + STEP_S  # a step takes the loop's whole share
        while time.monotonic() < end:
            pass
        self.left -= 1
        return self.left <= 0

    def text(self) -> Text:
        text = Text()
        text.rows("t", [b'"a":1'])
        return text

    def written(self) -> None:
        self.heard.append("written")


def test_a_long_table_is_encoded_between_the_turns_of_the_loop(tmp_path: Path) -> None:
    table, pool, turns, told = Long(3), Idle(), list[Callable[[], None]](), list[str]()
    files = ConfigFiles(RealFiles(), str(tmp_path), {"topics": table}, turns.append)
    files.write({"topics"}, pool, told.append)  # type: ignore[arg-type] # a pool as far as needed
    count = 0
    while turns:
        assert not pool.work
        turns.pop()()
        count += 1
    assert count == 2 and table.heard == ["begin"] and not told
    pool.run_one()
    turns.pop()()
    assert table.heard == ["begin", "written"] and told == [""]
    assert json.loads((tmp_path / "topics.json").read_bytes()) == {"t": {"a": 1}}


class Failing(RealFiles):
    """Real files on which tables cannot be written while `full` is set."""

    full = True

    def write_file(self, path: str, data: bytes) -> None:
        if self.full:
            raise FileFailed(f"cannot write {path}: no")
        super().write_file(path, data)


def test_a_table_that_could_not_be_written_is_tried_again_until_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    disk, table, pool = Failing(), Long(0), Idle()
    timers: list[tuple[float, Callable[[], None]]] = []
    told: list[str] = []
    files = ConfigFiles(
        disk, str(tmp_path), {"topics": table}, lambda ready: ready(), lambda *timer: timers.append(timer)
    )
    files.write({"topics"}, pool, told.append)  # type: ignore[arg-type] # a pool as far as needed
    pauses = []
    for _ in range(7):
        pool.run_one()
        pause, again = timers.pop()
        pauses.append(pause)
        again()
    assert pauses == [0.5, 1, 2, 4, 8, 10, 10]
    assert (files.failed_writes, sum(files.writes.counts)) == (7, 0)
    assert len(told) == 1 and "topics.json could not be written" in told[0] and "written" not in table.heard
    files.write({"topics"}, pool, told.append)  # type: ignore[arg-type] # who asks meanwhile waits for the next
    disk.full = False
    pool.run_one()
    pool.run_one()
    assert told[1:] == [""] and not timers and not pool.work and table.heard.count("written") == 2
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert (files.failed_writes, sum(files.writes.counts)) == (7, 2)
    disk.full = True
    files.write({"topics"}, pool, told.append)  # type: ignore[arg-type] # a pool as far as needed
    pool.run_one()
    assert [pause for pause, _ in timers] == [0.5]
    files.stop()
    timers.pop()[1]()
    files.write({"topics"}, pool, told.append)  # type: ignore[arg-type] # a pool as far as needed
    assert not pool.work


def test_shutdown_writes_everything(tmp_path: Path) -> None:
    files = configs(tmp_path, Stored(b"last"))
    files.load()
    files.write_all_now()
    assert (tmp_path / "topics.json").read_bytes() == b"last"


@pytest.mark.parametrize("spoilt", [b"broken", b"", b"\0\0\0\n"])
@pytest.mark.parametrize("copy", [None, b"broken too", b""])
def test_a_table_that_is_there_and_cannot_be_read_refuses_the_start(
    tmp_path: Path, spoilt: bytes, copy: bytes | None
) -> None:
    (tmp_path / "topics.json").write_bytes(spoilt)
    if copy is not None:
        (tmp_path / "topics.json.bak").write_bytes(copy)
    with pytest.raises(StoreDamaged, match=r"topics\.json cannot be read .*: replace it with an intact copy"):
        configs(tmp_path, Stored()).load()
    assert (tmp_path / "topics.json").read_bytes() == spoilt


def test_the_copy_before_is_used_when_a_crash_left_no_file(tmp_path: Path) -> None:
    (tmp_path / "topics.json.bak").write_bytes(b"older")
    table = Stored()
    config = configs(tmp_path, table)
    assert (config.load(), config.damaged) == (["topics"], 0)
    assert table.content == b"older"


def test_a_file_of_before_is_used_only_when_there_is_none_of_the_name(tmp_path: Path) -> None:
    table = Stored()
    table.persisted_before = "older"
    (tmp_path / "older.json").write_bytes(b"of before")
    assert configs(tmp_path, table).load() == ["topics"] and table.content == b"of before"
    (tmp_path / "topics.json").write_bytes(b"broken")
    with pytest.raises(StoreDamaged):
        configs(tmp_path, table).load()


def test_the_folder_of_tables_survives_a_power_cut() -> None:
    disk = SimulatedFiles()
    disk.make_dir("/s")
    disk.sync_dir("/")
    files = ConfigFiles(disk, "/s/config", {"topics": Stored(b"kept")}, lambda told: told())
    files.load()
    files.write_all_now()
    disk.power_cut(0)
    assert disk.read_file("/s/config/topics.json") == b"kept"


def test_damaged_table_is_replaced_by_its_copy_or_refuses_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = Stored()
    config = configs(tmp_path, table)
    for content in (b'{"a":1}', b'{"a":2}'):
        table.content = content
        config.write_now("topics")
    (tmp_path / "topics.json").write_bytes(b'{"a":6}')
    found = Stored()
    config = configs(tmp_path, found)
    assert (config.load(), config.damaged) == (["topics"], 1)
    assert found.content == b'{"a":1}'
    assert "its checksum is not in" in caplog.text
    (tmp_path / "topics.json.bak").write_bytes(b'{"a":5}')
    with pytest.raises(StoreDamaged, match=r"topics\.json\.crc; delete that file .*replace it with an intact copy"):
        configs(tmp_path, Stored()).load()
