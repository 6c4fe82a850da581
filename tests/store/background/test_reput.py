"""Dispatch: from memory and from the log, its budget, bad records, deleted files, failing disks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from bolide.store.disk.files import FileFailed
from tests.store.parts import OwnFiles, Parts, put_of


def units(parts: Parts, topic: str = "T", queue_id: int = 0) -> list[int]:
    queue = parts.queues.get(topic, queue_id)
    if queue is None:
        return []
    return [unit[0] for at in range(queue.max_offset) if (unit := queue.unit(at)) is not None]


@pytest.mark.parametrize("offer", [True, False])
def test_memory_and_log_lead_to_the_same(tmp_path: Path, offer: bool) -> None:
    parts = Parts(tmp_path)
    expected = []
    for number in range(100):  # several files of 4096 bytes, so blanks too
        d = parts.append(put_of("T", number % 2, b"x" * (number % 50), keys=f"k{number}", tags="a"), offer=offer)
        expected.append(("T", number % 2, number // 2 + 1))
        if number % 2 == 0:
            last = d
    assert parts.dispatch() == expected
    assert parts.reput.dispatched_offset == parts.log.written_offset
    assert units(parts)[-1] == last.physical_offset
    assert parts.index.query("T", "k77", 10, 0, 1 << 60)
    assert parts.reput.skipped_bytes == 0
    assert parts.reput.last_physical_offset > last.physical_offset


def test_holes_in_memory_are_read_from_the_log(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    for number in range(60):
        parts.append(put_of("T", 0, b"body"), offer=number % 7 < 4)
    assert [max_offset for _, _, max_offset in parts.dispatch()] == list(range(1, 61))


def test_dispatch_stops_at_the_confirm_offset(tmp_path: Path) -> None:
    for offer in (True, False):
        parts = Parts(tmp_path / str(offer))
        ends = []
        for _ in range(5):
            d = parts.append(put_of("T", 0, b"body"), offer=offer)
            ends.append(d.physical_offset + d.size)
        assert len(parts.reput.run(ends[1], 100, 0)) == 2
        assert parts.reput.run(ends[2] - 1, 100, 0) == [], "the front of a record is not enough"
        assert parts.reput.run(ends[1] + 4, 100, 0) == []
        assert parts.reput.skipped_bytes == 0
        assert len(parts.reput.run(ends[4], 2, 0)) == 2, "the budget"
        assert parts.reput.backlog(ends[4]) == ends[4] - ends[3]
        assert len(parts.reput.run(ends[4], 2, 0)) == 1


def test_withdrawn_records_are_forgotten(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    kept = parts.append(put_of("T", 0, b"body"))
    parts.reput.offer(kept)  # a second time, as if the next one had the wrong offset
    parts.reput.withdraw(kept.physical_offset + 1)
    lost = parts.append(put_of("T", 0, b"body"))
    parts.reput.withdraw(lost.physical_offset)
    assert len(parts.dispatch()) == 2, "what is not in memory is read from the log"


def test_half_and_rolled_back_records(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    for sys_flag in (0, 4, 8, 12):
        parts.append(put_of("T", 0, b"body", keys=f"k{sys_flag}", sys_flag=sys_flag))
        if sys_flag in (4, 12):
            parts.next["T", 0] -= 1
    assert len(parts.dispatch()) == 2
    found = {flag: len(parts.index.query("T", f"k{flag}", 10, 0, 1 << 60)) for flag in (0, 4, 8, 12)}
    assert found == {0: 1, 4: 1, 8: 1, 12: 0}


def damaged(parts: Parts, tmp_path: Path, at: int, data: bytes) -> None:
    path = tmp_path / "commitlog" / f"{at // 4096 * 4096:020d}"
    content = bytearray(path.read_bytes())
    content[at % 4096 : at % 4096 + len(data)] = data
    path.write_bytes(content)


def three_files(parts: Parts) -> list[int]:
    starts = []
    while parts.log.end_offset < 9000:
        starts.append(int(parts.append(put_of("T", 0, b"x" * 300, tags="a"), offer=False).physical_offset))
    return starts


def test_a_record_whose_parts_do_not_add_up_is_skipped_alone(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    starts = three_files(parts)
    length = 91 + 300 + 1 - 2  # where the length of the properties stands
    damaged(parts, tmp_path, starts[2] + length, struct.pack(">h", 1))
    parts.dispatch()
    assert units(parts) == starts[:2] + starts[3:]
    (skip,) = parts.reput.take_skips()
    assert (skip.physical_offset, skip.size) == (starts[2], starts[3] - starts[2])
    assert str(starts[2]) in str(skip)
    assert parts.reput.skipped_records == 1
    assert parts.reput.take_skips() == []


@pytest.mark.parametrize(
    "data", [bytes(8), struct.pack(">ii", 1 << 30, -626843481), struct.pack(">ii", -5, -626843481)]
)
def test_a_master_leaves_the_rest_of_a_file_it_cannot_read(tmp_path: Path, data: bytes) -> None:
    parts = Parts(tmp_path)
    starts = three_files(parts)
    damaged(parts, tmp_path, starts[2], data)
    parts.dispatch()
    assert units(parts) == starts[:2] + [start for start in starts if start >= 4096]
    (skip,) = parts.reput.take_skips()
    assert (skip.physical_offset, skip.size) == (starts[2], 4096 - starts[2])


def test_a_slave_waits_before_bytes_it_cannot_read(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.reput.jump_over_bad = False
    starts = three_files(parts)
    path = tmp_path / "commitlog" / f"{0:020d}"
    good = path.read_bytes()
    damaged(parts, tmp_path, starts[2], bytes(8))
    parts.dispatch()
    assert parts.reput.dispatched_offset == starts[2]
    path.write_bytes(good)
    parts.dispatch()
    assert units(parts) == starts


@pytest.mark.parametrize(("follows", "offer"), [(True, False), (False, False), (False, True)])
def test_only_slave_reports_copied_records(tmp_path: Path, follows: bool, offer: bool) -> None:
    parts = Parts(tmp_path)
    copied: list[tuple[str, int]] = []
    parts.reput.copied = lambda topic, size: copied.append((topic, size))
    parts.reput.jump_over_bad = not follows
    appended = [parts.append(put_of(topic, 0, b"body"), offer=offer) for topic in ("T", "U", "T")]
    parts.dispatch()
    assert copied == ([(d.topic, d.size) for d in appended] if follows else [])


def test_a_deleted_beginning_is_passed_over(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    starts = three_files(parts)
    parts.log.segments.delete_before(4096)
    parts.dispatch()
    assert [at for at in units(parts) if at] == [start for start in starts if start >= 4096]
    assert parts.reput.skipped_bytes == 4096


class FullDisk(OwnFiles):
    """Files of which those with `closed` in their path cannot be opened while `full`."""

    full = False
    closed = "/index/"

    def open(self, path: str, create: bool = False, size: int = 0) -> int:
        if self.full and self.closed in path:
            raise FileFailed(f"cannot open {path}: no")
        return super().open(path, create, size)


def test_a_failed_write_keeps_the_place(tmp_path: Path) -> None:
    files = FullDisk()
    parts = Parts(tmp_path, files=files)
    for number in range(30):
        parts.append(put_of("T", 0, b"body", keys=f"k{number}"))
    files.full = True
    arrived = []
    with pytest.raises(FileFailed):
        for _ in range(40):
            arrived += parts.dispatch()
    files.full = False
    arrived += parts.dispatch()
    assert parts.reput.dispatched_offset == parts.log.written_offset
    assert len(units(parts)) == 30
    assert all(parts.index.query("T", f"k{number}", 10, 0, 1 << 60) for number in range(30))
    assert len(arrived) >= 29


def test_a_queue_that_cannot_be_written_stops_dispatch_before_the_next_record(tmp_path: Path) -> None:
    files = FullDisk()
    files.closed = "/consumequeue/"
    for offer in (True, False):  # from memory, and read back from the log
        parts = Parts(tmp_path / str(offer), files=files)
        starts = [parts.append(put_of("T", 0, b"body"), offer=offer).physical_offset for _ in range(450)]
        files.full = True
        assert len(parts.dispatch()) == 400, "as many as a queue keeps in memory"
        assert parts.reput.dispatched_offset == starts[400]
        for _ in range(3):
            with pytest.raises(FileFailed):
                parts.dispatch()
        files.full = False
        assert len(parts.dispatch()) == 50
        assert units(parts) == starts


def test_an_index_entry_is_not_put_twice_when_a_record_is_tried_again(tmp_path: Path) -> None:
    """The file is full after the first key of a record, and the next one cannot be made."""
    files = FullDisk()
    parts = Parts(tmp_path, files=files)
    for number in range(9):
        parts.append(put_of("T", 0, b"body", keys=f"a{number} b{number}"))
    parts.append(put_of("T", 0, b"body", keys="k1 k2 k3"))
    parts.dispatch()
    assert [int(file.index_count) for file in parts.index.index_files()] == [20, 3]
    again = Parts(tmp_path / "again", files=files)
    for number in range(9):
        again.append(put_of("T", 0, b"body", keys=f"a{number} b{number}"))
    again.dispatch()
    again.append(put_of("T", 0, b"body", keys="k1 k2 k3"))
    files.full = True
    assert len(again.dispatch()) == 1
    for _ in range(3):
        with pytest.raises(FileFailed):
            again.dispatch()
    files.full = False
    again.dispatch()
    assert [int(file.index_count) for file in again.index.index_files()] == [20, 3]
    for key in ("k1", "k2", "k3"):
        assert len(again.index.query("T", key, 10, 0, 1 << 60)) == 1
