"""What a start makes of the timer's files: ours, Java's that is a second behind or ahead, and damaged ones."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest

from bolide.layout.timer import MAGIC_DEFAULT, MAGIC_DELETE
from bolide.layout.timer_checkpoint import TimerCheckpoint, decode_timer_checkpoint
from bolide.store.timer.timer_files import TimerFiles, Wish
from bolide.testing.files import SimulatedFiles, Stopped

ROOT = "/store"
NOW = 1_700_000_000_000
FILE = 52 * 3 + 16
"""Three units a file."""


def opened(disk: SimulatedFiles) -> TimerFiles:
    disk.make_dir(f"{ROOT}/config")
    return TimerFiles(disk, ROOT, 1000, FILE, 100)


def wish(second: int, record: int, magic: int = MAGIC_DEFAULT) -> Wish:
    return Wish(NOW + second * 1000, magic, record * 1000, 100, 7)


def queue_offset(physical_offset: int, size: int) -> int:
    """Record n stands at 1000 n and has queue offset n; those from 1000 on are gone."""
    return physical_offset // 1000 if physical_offset < 1_000_000 else -1


def chain(files: TimerFiles, second: int) -> list[int]:
    """The records in a slot, the newest first."""
    slot = files.wheel.get(NOW + second * 1000)
    found = []
    at = -1 if slot is None else int(slot.last)
    while at >= 0:
        unit = files.log.unit(at)
        assert unit is not None
        found.append(int(unit.physical_offset) // 1000)
        at = int(unit.previous)
    if slot is not None:
        assert slot.count == len(found)
    return found


def synced(files: TimerFiles, queue_offset: int, read_time: int = NOW) -> None:
    files.sync_job(TimerCheckpoint(read_time, files.log.end, queue_offset, 0, 0, 1, 1000), None).run()


def javas(disk: SimulatedFiles, read_time: int, log_end: int, queue_offset: int) -> None:
    """The checkpoint as Java leaves it: without our mark."""
    data = struct.pack(">7q", read_time, log_end, queue_offset, queue_offset, 0, 0, 1).ljust(4096, b"\0")
    handle = disk.open(f"{ROOT}/config/timercheck", True, 4096)
    disk.write_at(handle, [data], 0)
    disk.datasync(handle)
    disk.close(handle)


def test_slots_find_their_units_over_the_ends_of_files() -> None:
    files = opened(SimulatedFiles())
    assert files.load(queue_offset) == 0
    for record in range(10):
        files.append([wish(record % 2, record)], NOW)
    assert chain(files, 0) == [8, 6, 4, 2, 0]
    assert chain(files, 1) == [9, 7, 5, 3, 1]
    assert files.log.end == 3 * FILE + 52
    assert files.wheel.count == 10


@pytest.mark.parametrize("seed", range(12))
def test_entries_after_the_checkpoint_are_undone(seed: int) -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(record % 3, record) for record in range(8)], NOW)
    synced(files, 8)
    files.append([wish(record % 4, record) for record in range(8, 16)], NOW)
    job = files.sync_job(TimerCheckpoint(NOW, files.log.end, 16, 0, 0, 2, 1000), None)
    disk.stop_after = disk.calls + seed  # somewhere between the first sync and the new checkpoint
    with suppress(Stopped):
        job.run()
    done = disk.stop_after is not None and disk.calls < disk.stop_after
    disk.power_cut(seed)
    again = opened(disk)
    offset = again.load(queue_offset)
    assert offset in ((16,) if done else (8, 16))  # a checkpoint that was written and not synced may survive
    assert not again.lost
    expected = range(offset)
    for second in range(4):
        wanted = [r for r in expected if (r % 3 if r < 8 else r % 4) == second]
        assert chain(again, second) == wanted[::-1]
    again.append([wish(1, 16)], NOW)
    newest, *before = chain(again, 1)
    assert newest == 16
    twice = opened(disk)
    twice.load(queue_offset)
    assert chain(twice, 1) == before


def test_java_s_units_behind_its_checkpoint_count_up_to_its_queue_offset() -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(record % 2, record) for record in range(4)], NOW)
    synced(files, 4)
    end = files.log.end
    files.append([wish(record % 2, record) for record in range(4, 10)], NOW)  # the wheel's file lacks these
    javas(disk, NOW, end, 8)
    again = opened(disk)
    assert again.load(queue_offset) == 8
    assert (chain(again, 0), chain(again, 1)) == ([6, 4, 2, 0], [7, 5, 3, 1])
    assert again.checkpoint.ours
    assert decode_timer_checkpoint(disk.read_file(f"{ROOT}/config/timercheck")).queue_offset == 8


def test_java_goes_on_behind_its_last_unit_when_a_crash_took_some() -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(0, record) for record in range(4)], NOW)
    synced(files, 4)
    javas(disk, NOW, files.log.end, 9)
    again = opened(disk)
    assert again.load(queue_offset) == 4
    assert chain(again, 0) == [3, 2, 1, 0]


def test_units_of_records_that_are_gone_end_what_java_left() -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(0, 0), wish(0, 1)], NOW)
    synced(files, 2)
    files.append([wish(0, 5000)], NOW)
    javas(disk, NOW, 104, 4)
    again = opened(disk)
    assert again.load(queue_offset) == 2
    assert chain(again, 0) == [1, 0]


def test_slots_before_the_read_time_are_over() -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(second, second) for second in range(5)], NOW)
    synced(files, 5, NOW + 3000)
    again = opened(disk)
    again.load(queue_offset)
    assert [chain(again, second) for second in range(5)] == [[], [], [], [3], [4]]


def test_deletes_count_less() -> None:
    files = opened(SimulatedFiles())
    files.load(queue_offset)
    files.append([wish(0, 0), wish(0, 1), wish(0, 2, MAGIC_DEFAULT | MAGIC_DELETE)], NOW)
    assert files.wheel.count_at(NOW) == 1


@pytest.mark.parametrize("which", ["timerwheel", "timerlog/" + "0" * 20])
def test_a_missing_file_makes_them_all_useless(which: str) -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(0, 0)], NOW)
    synced(files, 1)
    disk.remove(f"{ROOT}/{which}")
    again = opened(disk)
    again.load(queue_offset)
    assert again.lost
    again.reset()
    assert (again.log.end, again.wheel.count, disk.size(f"{ROOT}/timerwheel")) == (0, 0, -1)


def test_a_wheel_torn_by_java_is_set_anew_from_the_log() -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(record % 2, record) for record in range(5)], NOW)
    synced(files, 5)
    at = NOW // 1000 % 200 * 32
    handle = disk.open(f"{ROOT}/timerwheel")
    disk.write_at(handle, [struct.pack(">q", 77_777)], at + 16)  # the newest unit of the first slot: nonsense
    disk.close(handle)
    javas(disk, NOW, files.log.end, 5)
    again = opened(disk)
    assert again.load(queue_offset) == 5
    assert (chain(again, 0), chain(again, 1)) == ([4, 2, 0], [3, 1])


def test_a_slot_of_ours_that_leads_nowhere_is_searched_in_the_log() -> None:
    disk = SimulatedFiles()
    files = opened(disk)
    files.load(queue_offset)
    files.append([wish(record % 2, record) for record in range(5)], NOW)
    synced(files, 5)
    at = NOW // 1000 % 200 * 32
    handle = disk.open(f"{ROOT}/timerwheel")
    disk.write_at(handle, [struct.pack(">q", 5 * FILE)], at + 16)
    disk.close(handle)
    again = opened(disk)
    assert again.load(queue_offset) == 5
    assert (chain(again, 0), chain(again, 1)) == ([4, 2, 0], [3, 1])
