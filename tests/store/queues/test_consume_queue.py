"""One queue: units, tail and files, recovery, truncation, the oldest end; and a model of all of it."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bolide.store.disk.files import RealFiles
from bolide.store.disk.segments import HandleCache
from bolide.store.queues.consume_queue import ConsumeQueue
from bolide.store.queues.consume_queue_ext import ConsumeQueueExt
from tests.store.parts import ColdFiles, OwnFiles

UNITS = 10


def open_queue(folder: Path, files: RealFiles | None = None, ext: bool = False) -> ConsumeQueue:
    files = files or OwnFiles()
    handles = HandleCache(files, 3)
    extension = ConsumeQueueExt(files, f"{folder}/ext/T/0", 256, handles) if ext else None
    return ConsumeQueue(files, f"{folder}/cq/T/0", "T", 0, UNITS * 20, handles, extension)


def put(queue: ConsumeQueue, offset: int, tags_code: int = 7) -> bool:
    return queue.put(offset * 100, 100, tags_code, offset, 1000 + offset, b"")


def all_units(queue: ConsumeQueue) -> list[tuple[int, int, int]]:
    found = []
    at = int(queue.min_offset)
    while at < queue.max_offset:
        data = queue.units(at, 1000)
        assert data, at
        found += list(struct.iter_unpack(">qiq", data))
        at += len(data) // 20
    return found


def reopened(folder: Path, clean: bool = True, ext: bool = False) -> ConsumeQueue:
    queue = open_queue(folder, ext=ext)
    queue.load()
    queue.recover(clean)
    return queue


def test_units_are_read_from_tail_and_files_alike(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    for offset in range(13):
        assert put(queue, offset)
    expected = [(offset * 100, 100, 7) for offset in range(13)]
    assert all_units(queue) == expected
    assert not (tmp_path / "cq").exists(), "nothing is written before flush"
    queue.flush()
    assert all_units(queue) == expected
    for offset in range(13, 16):
        put(queue, offset)
    data = queue.units(8, 100)
    assert data is not None
    assert len(data) == 2 * 20, "a read ends with the file"
    data = queue.units(11, 4)
    assert data is not None
    assert [unit[0] for unit in struct.iter_unpack(">qiq", data)] == [1100, 1200, 1300, 1400], "file and tail as one"
    queue.flush()
    assert sorted(path.name for path in (tmp_path / "cq/T/0").iterdir()) == [f"{0:020d}", f"{200:020d}"]
    assert all((tmp_path / "cq/T/0" / f"{start:020d}").stat().st_size == 200 for start in (0, 200))


def test_a_full_tail_is_read_and_says_that_it_is_to_be_written(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    for offset in range(450):
        assert queue.is_full() == (offset >= 400)
        put(queue, offset)
    assert not (tmp_path / "cq/T/0").exists(), "a put writes nothing"
    assert [unit[0] for unit in all_units(queue)] == [offset * 100 for offset in range(450)]
    queue.write_tail()
    assert not queue.is_full()
    assert len(list((tmp_path / "cq/T/0").iterdir())) == 45
    assert [unit[0] for unit in all_units(queue)] == [offset * 100 for offset in range(450)]


def test_repeated_records_are_ignored(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    put(queue, 0)
    assert not put(queue, 0), "the last one again, even at offset 0, where only its end tells"
    queue = open_queue(tmp_path / "other")
    for offset in range(5):
        put(queue, offset)
    assert not put(queue, 4)
    assert not queue.put(900, 100, 7, 3, 0, b""), "a queue offset below the end"
    assert not queue.put(200, 100, 7, 9, 0, b""), "a record below the last one, whatever its queue offset"
    assert queue.max_offset == 5
    assert (queue.duplicates, queue.gaps) == (3, 0)


def test_a_gap_is_counted_and_written_at_the_end(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    put(queue, 0)
    assert put(queue, 5)
    assert queue.gaps == 1
    assert all_units(queue) == [(0, 100, 7), (500, 100, 7)]


def test_numbers_stay_when_what_is_missing_left_the_log(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    for offset in range(4):
        put(queue, offset)
    queue.flush()
    queue.correct_min_offset(700)  # the log begins with the record of unit 7: a power cut took units 4 to 6
    assert put(queue, 7)
    assert (queue.min_offset, queue.max_offset, queue.gaps) == (7, 8, 0)
    assert queue.unit(7) == (700, 100, 7)
    queue.flush()
    again = open_queue(tmp_path)
    again.load()
    again.recover()
    assert (again.max_offset, again.unit(7)) == (8, (700, 100, 7)), "what is missing is filled up in the file"


def test_the_first_unit_may_have_any_offset(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    put(queue, 23)
    assert (queue.min_offset, queue.max_offset) == (23, 24)
    queue.flush()
    data = (tmp_path / "cq/T/0" / f"{400:020d}").read_bytes()
    assert data[:60] == struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 3
    assert struct.unpack(">qiq", data[60:80]) == (2300, 100, 7)
    again = reopened(tmp_path)
    again.correct_min_offset(0)
    assert (again.min_offset, again.max_offset, again.max_physical_offset) == (23, 24, 2400)


@pytest.mark.parametrize("clean", [True, False])
def test_recovery_ends_at_the_first_invalid_unit(tmp_path: Path, clean: bool) -> None:
    queue = open_queue(tmp_path)
    for offset in range(35):
        put(queue, offset)
    queue.flush()
    path = tmp_path / "cq/T/0" / f"{400:020d}"
    data = bytearray(path.read_bytes())
    data[60:80] = bytes(20)
    path.write_bytes(data)
    again = reopened(tmp_path, clean)
    assert (again.max_offset, again.max_physical_offset) == (23, 2300)
    assert not (tmp_path / "cq/T/0" / f"{600:020d}").exists()
    left = path.read_bytes()[60:]
    assert (left == bytes(140)) is not clean, "after a crash the units after the hole are wiped"
    put(again, 23)
    again.flush()
    assert reopened(tmp_path).max_offset == (24 if not clean else 30)


def test_recovery_looks_at_three_files_only(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    for offset in range(45):
        put(queue, offset)
    queue.flush()
    first = tmp_path / "cq/T/0" / f"{0:020d}"
    first.write_bytes(bytes(200))
    assert reopened(tmp_path).max_offset == 45


def test_an_empty_newest_file_is_thrown_away(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    for offset in range(10):
        put(queue, offset)
    queue.flush()
    (tmp_path / "cq/T/0" / f"{200:020d}").touch()
    again = reopened(tmp_path)
    assert again.max_offset == 10
    put(again, 10)
    again.flush()
    assert len(all_units(reopened(tmp_path))) == 11


@pytest.mark.parametrize(
    ("physical", "left"), [(0, 0), (1, 1), (950, 10), (1000, 10), (1001, 11), (1900, 19), (9999, 25)]
)
def test_truncate_drops_units_at_and_beyond(tmp_path: Path, physical: int, left: int) -> None:
    queue = open_queue(tmp_path)
    for offset in range(25):
        put(queue, offset)
    queue.truncate(physical)
    assert queue.max_offset == left
    assert queue.max_physical_offset == (left * 100 if left else -1)
    assert all_units(queue) == [(offset * 100, 100, 7) for offset in range(left)]
    again = reopened(tmp_path)
    assert again.max_offset == left, "old units must not come back"
    if left < 25:
        assert again.put(left * 100 + 5, 95, 8, left, 0, b"")
        assert all_units(again)[-1] == (left * 100 + 5, 95, 8)


def test_a_queue_that_lost_all_its_units_takes_them_again(tmp_path: Path) -> None:
    """A power cut left its second file alone, without a unit."""
    queue = open_queue(tmp_path)
    for offset in range(12):
        put(queue, offset)
    queue.truncate(0)
    queue.truncate(1000)
    assert put(queue, 0) and put(queue, 1)
    assert [unit[0] for unit in all_units(queue)] == [0, 100]


def test_delete_before_keeps_the_last_file_and_moves_the_minimum(tmp_path: Path) -> None:
    queue = open_queue(tmp_path)
    for offset in range(25):
        put(queue, offset)
    queue.flush()
    assert queue.delete_before(900) == []
    assert queue.min_offset == 9
    assert len(queue.delete_before(1001)) == 1
    assert queue.min_offset == 11
    assert len(queue.delete_before(1 << 40)) == 1
    assert (queue.min_offset, queue.max_offset) == (25, 25)
    put(queue, 25)
    assert all_units(queue) == [(2500, 100, 7)]


def test_cold_units_come_back_as_an_extent(tmp_path: Path) -> None:
    files = ColdFiles()
    queue = open_queue(tmp_path, files)
    for offset in range(12):
        put(queue, offset)
    assert queue.units(0, 5) is not None, "the tail is always warm"
    queue.flush()
    put(queue, 12)
    files.cold = True
    assert queue.units(3, 100) is None
    extent = queue.extent(3, 100)
    assert (extent.path, extent.offset, extent.size) == (str(tmp_path / "cq/T/0" / f"{0:020d}"), 60, 140)
    files.warm(extent.path, extent.offset, extent.size)
    data = queue.units(3, 100)
    assert data is not None
    assert len(data) == 140


@pytest.mark.parametrize("kept", range(20))
def test_a_torn_last_unit_leaves_the_extension_of_the_others(tmp_path: Path, kept: int) -> None:
    queue = open_queue(tmp_path, ext=True)
    for offset in range(4):
        put(queue, offset, tags_code=offset)
    queue.flush()
    with (tmp_path / "cq/T/0" / f"{0:020d}").open("r+b") as file:
        file.seek(3 * 20 + kept)
        file.write(bytes(20 - kept))  # a kill while the units were written: the address may be cut, too
    torn = reopened(tmp_path, clean=False, ext=True)
    torn.truncate(300)
    put(torn, 3, tags_code=3)
    put(torn, 4, tags_code=4)
    torn.flush()
    for where in (torn, reopened(tmp_path, clean=False, ext=True)):
        assert where.ext is not None
        units = [where.ext.unit(address) for _, _, address in all_units(where)]
        assert [unit.tags_code for unit in units if unit is not None] == list(range(5))


@pytest.mark.parametrize("wiped", range(1, 20))
def test_a_unit_that_was_wiped_in_part_is_put_again(tmp_path: Path, wiped: int) -> None:
    queue = open_queue(tmp_path)
    for offset in range(4):
        put(queue, offset)
    queue.flush()
    with (tmp_path / "cq/T/0" / f"{0:020d}").open("r+b") as file:
        file.seek(3 * 20)
        file.write(bytes(wiped))  # a recovery dropped the last unit, and was killed in the middle of that
    torn = reopened(tmp_path, clean=False)
    torn.truncate(300)
    put(torn, 3)
    assert all_units(torn) == [(offset * 100, 100, 7) for offset in range(4)]


def test_the_extension_is_truncated_with_its_queue(tmp_path: Path) -> None:
    queue = open_queue(tmp_path, ext=True)
    for offset in range(25):
        queue.put(offset * 100, 100, offset, offset, 5000 + offset, bytes([offset]) * 14)
    queue.truncate(1500)
    for where in (queue, reopened(tmp_path, ext=True)):
        assert where.ext is not None
        unit = where.unit(14)
        assert unit is not None
        found = where.ext.unit(unit[2])
        assert found is not None
        assert (found.tags_code, found.store_timestamp, found.bitmap) == (14, 5014, bytes([14]) * 14)
        assert where.ext.end == (unit[2] + (1 << 63)) + 34
    queue.truncate(0)
    assert queue.ext is not None
    assert queue.ext.end == 0


class QueueModel(RuleBasedStateMachine):
    """A queue against a list: put, flush, reopen after a stop or a crash, truncate, delete, read."""

    @initialize()
    def start(self) -> None:
        self.temporary = tempfile.TemporaryDirectory(prefix="bolide-queue-")
        self.folder = Path(self.temporary.name)
        self.queue = open_queue(self.folder, ext=True)
        self.units: list[tuple[int, int, int]] = []
        self.flushed = 0
        self.min = 0
        self.physical = 0

    @rule(count=st.integers(1, 14), size=st.integers(1, 200), skip=st.integers(0, 50))
    def put(self, count: int, size: int, skip: int) -> None:
        for _ in range(count):
            self.physical += skip
            tags = len(self.units) * 3
            assert self.queue.put(self.physical, size, tags, len(self.units), 7, b"x" * (size % 9))
            self.units.append((self.physical, size, tags))
            self.physical += size

    @rule()
    def put_again(self) -> None:
        if self.units:
            physical, size, tags = self.units[-1]
            assert not self.queue.put(physical, size, tags, len(self.units) - 1, 7, b"")

    @rule()
    def flush(self) -> None:
        self.queue.flush()
        self.flushed = len(self.units)

    @rule(clean=st.booleans())
    def stop_and_start(self, clean: bool) -> None:
        self.flush()
        self.queue = reopened(self.folder, clean, ext=True)
        self.queue.correct_min_offset(self.units[self.min][0] if self.min < len(self.units) else 1 << 60)

    @precondition(lambda self: self.units)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.min, len(self.units)))
        physical = self.units[at][0] if at < len(self.units) else self.physical
        self.queue.truncate(physical)
        self.units = self.units[:at]
        self.physical = max(physical, int(self.queue.max_physical_offset))
        if self.queue.segments.is_empty() and self.queue.max_offset == 0:
            self.units = []
            self.min = 0
        self.min = min(self.min, len(self.units))

    @precondition(lambda self: len(self.units) > self.min)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(self.min, len(self.units) - 1))
        self.flush()
        self.queue.delete_before(self.units[at][0])
        self.min = at

    @invariant()
    def equal(self) -> None:
        assert (self.queue.min_offset, self.queue.max_offset) == (self.min, len(self.units))
        read = all_units(self.queue)
        assert [unit[:2] for unit in read] == [unit[:2] for unit in self.units[self.min :]]
        assert self.queue.ext is not None
        for got, expected in list(zip(read, self.units[self.min :], strict=True))[-3:]:
            unit = self.queue.ext.unit(got[2])
            assert unit is not None
            assert unit.tags_code == expected[2]

    def teardown(self) -> None:
        if hasattr(self, "temporary"):
            self.queue.segments.handles.close()
            self.temporary.cleanup()


QueueModel.TestCase.settings = settings(max_examples=10, stateful_step_count=15, deadline=None)
TestQueueModel = QueueModel.TestCase


def test_a_crash_leaves_no_old_units_behind_the_end_wherever_they_are(tmp_path: Path) -> None:
    files = OwnFiles()
    handles = HandleCache(files, 3)
    size = 300_000 * 20
    queue = ConsumeQueue(files, f"{tmp_path}/T/0", "T", 0, size, handles)
    put(queue, 0)
    queue.flush()
    path = tmp_path / "T/0" / f"{0:020d}"
    unit = struct.pack(">qiq", 5, 5, 5)
    with path.open("r+b") as file:
        for at in (40, 5000, 70_000, 1_000_000, size - 20):
            file.seek(at)
            file.write(unit)
    again = ConsumeQueue(files, f"{tmp_path}/T/0", "T", 0, size, handles)
    again.load()
    again.recover()
    assert again.max_offset == 1
    assert path.read_bytes()[20:] == bytes(size - 20)
    handles.close()
