"""Tables as files: written off the loop, the newest content last, the copy before used when the file is broken."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bolide.node.persist import ConfigFiles
from bolide.store.errors import StoreDamaged
from bolide.store.files import RealFiles
from bolide.testing.files import SimulatedFiles


class Table:
    def __init__(self, content: bytes = b"") -> None:
        self.content = content
        self.persisted_before = ""

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
    table, told = Table(b"one"), list[str]()
    with ThreadPoolExecutor(1) as pool:
        first = configs(tmp_path, table)
        assert first.load() == []
        first.write({"topics"}, pool, told.append)
    assert told == [""]
    again = Table()
    assert configs(tmp_path, again).load() == ["topics"]
    assert again.content == b"one"


def test_the_copy_before_is_used_when_the_file_is_broken_or_empty(tmp_path: Path) -> None:
    for spoilt in (b"broken", b"", b"\0\0\0\n"):
        (tmp_path / "topics.json").write_bytes(spoilt)
        (tmp_path / "topics.json.bak").write_bytes(b"older")
        table = Table()
        assert configs(tmp_path, table).load() == ["topics"]
        assert table.content == b"older"


def test_changes_during_a_write_are_written_once_more_and_last(tmp_path: Path) -> None:
    table, pool = Table(b"one"), Idle()
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
        files = ConfigFiles(RealFiles(), str(tmp_path / "none"), {"topics": Table(b"one")}, lambda ready: ready())
        files.write({"topics", "nothing"}, pool, told.append)
        files.write({"nothing"}, pool, told.append)
    assert sorted(told)[0] == "" and "none/topics.json could not be written" in sorted(told)[1]


def test_shutdown_writes_everything(tmp_path: Path) -> None:
    files = configs(tmp_path, Table(b"last"))
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
    with pytest.raises(StoreDamaged, match=r"topics\.json cannot be read .*: put a good copy in its place"):
        configs(tmp_path, Table()).load()
    assert (tmp_path / "topics.json").read_bytes() == spoilt


def test_the_copy_before_is_used_when_a_crash_left_no_file(tmp_path: Path) -> None:
    (tmp_path / "topics.json.bak").write_bytes(b"older")
    table = Table()
    assert configs(tmp_path, table).load() == ["topics"]
    assert table.content == b"older"


def test_a_file_of_before_is_used_only_when_there_is_none_of_the_name(tmp_path: Path) -> None:
    table = Table()
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
    files = ConfigFiles(disk, "/s/config", {"topics": Table(b"kept")}, lambda told: told())
    files.load()
    files.write_all_now()
    disk.power_cut(0)
    assert disk.read_file("/s/config/topics.json") == b"kept"
