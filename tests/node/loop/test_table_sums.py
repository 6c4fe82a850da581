"""Checksums of tables: a start distinguishes damage from edits of RocketMQ or people, after any crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from bolide.node.loop.table_sums import TableSums
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.testing.files import SimulatedFiles

PATH = "/store/config/topics.json"


def contents(number: int) -> bytes:
    return b'{\n"number":%d\n}' % number


def read(files: SimulatedFiles | RealFiles, path: str) -> tuple[bytes, str]:
    """A table or its .bak, and why a start rejects it."""
    sums = TableSums(files)
    data = files.read_file(path)
    assert data is not None
    return data, sums.mismatch(path.removesuffix(".bak"), data)


def test_each_bit_that_changes_is_noticed(tmp_path: Path) -> None:
    files, path = RealFiles(), tmp_path / "topics.json"
    sums = TableSums(files)
    for number in (1, 2):
        sums.write(str(path), contents(number))
    assert read(files, str(path)) == (contents(2), "")
    assert read(files, f"{path}.bak") == (contents(1), "")
    for name, number in (("topics.json", 2), ("topics.json.bak", 1)):
        for bit in range(8 * len(contents(number))):
            damaged = bytearray(contents(number))
            damaged[bit >> 3] ^= 1 << (bit & 7)
            if damaged[2] == 0x20:
                continue  # it is indented now, and no JSON
            (tmp_path / name).write_bytes(damaged)
            assert "topics.json.crc; delete that file if someone has edited" in read(files, str(tmp_path / name))[1]
    (tmp_path / "topics.json.crc").unlink()
    assert read(files, str(path))[1] == ""


@pytest.mark.parametrize("text", [b'{\n\t"number":3\n}', b'{\r\n  "number":3\r\n}'])
def test_indented_table_is_accepted_and_checked_after_the_next_write(tmp_path: Path, text: bytes) -> None:
    files, path = RealFiles(), tmp_path / "topics.json"
    TableSums(files).write(str(path), contents(1))
    path.write_bytes(text)
    sums = TableSums(files)
    assert sums.mismatch(str(path), text) == ""
    sums.write(str(path), contents(4))
    assert read(files, str(path)) == (contents(4), "")
    assert read(files, f"{path}.bak") == (text, "")
    path.write_bytes(contents(5))
    assert read(files, str(path))[1] != ""


def test_damaged_list_is_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    files, path = RealFiles(), tmp_path / "topics.json"
    TableSums(files).write(str(path), contents(1))
    listed = (tmp_path / "topics.json.crc").read_bytes()
    (tmp_path / "topics.json.crc").write_bytes(listed.replace(b"14-", b"15-"))
    path.write_bytes(contents(2))
    assert read(files, str(path))[1] == ""
    assert "topics.json.crc is damaged" in caplog.text


def test_damaged_table_is_not_listed_by_the_write_that_replaces_it(tmp_path: Path) -> None:
    files, path = RealFiles(), tmp_path / "topics.json"
    TableSums(files).write(str(path), contents(1))
    TableSums(files).write(str(path), contents(2))
    path.write_bytes(contents(9))
    sums = TableSums(files)
    assert sums.mismatch(str(path), contents(9))
    assert sums.mismatch(str(path), contents(1)) == ""
    sums.write(str(path), contents(3))
    assert read(files, f"{path}.bak")[1] != ""
    assert read(files, str(path)) == (contents(3), "")


class Stopping(SimulatedFiles):
    """A disk that fails the call of this number that changes it, and all after it."""

    left = -1

    def _count(self) -> None:
        if self.left == 0:
            raise FileFailed("stopped")
        self.left -= 1

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        self._count()
        return super().open(path, create, size)

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        self._count()
        super().write_at(handle, buffers, offset)

    def datasync(self, handle: int) -> None:
        self._count()
        super().datasync(handle)

    def write_file(self, path: str, data: bytes) -> None:
        self._count()
        super().write_file(path, data)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("calls", range(5))
def test_crash_at_any_call_leaves_a_table_that_matches(calls: int, power: bool) -> None:
    files = Stopping()
    files.make_dir("/store/config")
    for folder in ("/store", "/"):
        files.sync_dir(folder)
    sums = TableSums(files)
    for number in (1, 2):
        sums.write(PATH, contents(number))
    for number in range(3, 9):  # each start crashes at the same place
        files.left = calls
        sums = TableSums(files)
        if calls < 4:
            with pytest.raises(FileFailed):
                sums.write(PATH, contents(number))
        else:
            sums.write(PATH, contents(number))
        files.left = -1
        if power:
            files.power_cut(number)
        else:
            files.process_crash()
        data, wrong = read(files, PATH)
        assert (data, wrong) == (contents(2 if calls < 4 else number), "")
        assert read(files, PATH + ".bak")[1] == ""


def test_failed_write_that_is_retried_keeps_both_copies_listed() -> None:
    files = Stopping()
    files.make_dir("/store/config")
    sums = TableSums(files)
    for number in (1, 2):
        sums.write(PATH, contents(number))
    for number in range(3, 9):
        files.left = 3
        with pytest.raises(FileFailed):
            sums.write(PATH, contents(number))
    files.left = -1
    assert read(files, PATH) == (contents(2), "")
    assert read(files, PATH + ".bak") == (contents(1), "")
    sums.write(PATH, contents(9))
    assert read(files, PATH) == (contents(9), "")
