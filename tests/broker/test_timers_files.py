"""The timer's files: full disks, failed syncs, checkpoints, lost and damaged files, and files that go."""

from __future__ import annotations

import pytest

from bolide.layout.timer_checkpoint import decode_timer_checkpoint
from bolide.store.files import FileFailed
from bolide.store.running_flags import NOT_WRITABLE
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import properties_of
from tests.broker.timer_parts import ROOT, Timer

MINUTE = 60_000


def test_a_store_that_takes_nothing_loses_nothing() -> None:
    timer = Timer()
    timer.send("a", 2_000)
    timer.later(1_000)
    timer.store.flags.set(NOT_WRITABLE)
    assert not timer.store.writable()
    timer.later(5_000)
    assert timer.delivered() == []
    timer.store.flags.clear(NOT_WRITABLE)
    timer.later(500)
    assert timer.delivered() == ["a"]


def test_properties_that_grow_too_long_are_delivered_as_they_are() -> None:
    timer = Timer()
    timer.send("a", 2_000, big="x" * 32_640)
    timer.later(3_000)
    (record,) = timer.records()
    assert "TIMER_DEQUEUE_MS" not in properties_of(record)


def test_records_that_are_not_in_memory_are_read_in_the_pool() -> None:
    timer = Timer()
    for number in range(100):
        timer.put(f"m{number}", TIMER_DELAY_SEC="5")
    timer.turn()
    timer.later(2_000)
    log = timer.files.list_dir(f"{ROOT}/commitlog")
    assert isinstance(timer.files, SimulatedFiles)
    timer.files.cold.update(f"{ROOT}/commitlog/{name}" for name in log)
    timer.later(5_000)
    assert timer.delivered() == [f"m{number}" for number in range(100)]
    assert not timer.files.cold


def test_a_full_disk_under_the_timer_log_is_tried_again() -> None:
    timer = Timer()
    timer.send("a", 5_000)
    assert isinstance(timer.files, SimulatedFiles)
    timer.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        timer.service.tick(timer.now, 1000)
    timer.later(6_000)
    assert timer.delivered() == ["a"]


def test_what_was_delivered_before_a_fault_is_not_delivered_again() -> None:
    timer = Timer()
    timer.send("due", 2_000)
    timer.send("waits", 90_000)
    timer.now += 10_000
    assert isinstance(timer.files, SimulatedFiles)
    timer.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        timer.service.tick(timer.now, 1000)
    timer.turn()
    timer.later(100_000)
    assert timer.delivered() == ["due", "waits"]


def test_the_checkpoint_waits_for_the_log() -> None:
    timer = Timer()
    timer.send("a", 2_000)
    timer.later(1_000)
    timer.now += 1_000
    timer.service.tick(timer.now, 1000)  # delivers, and notes it
    timer.service.tick(timer.now, 1000)
    assert not timer.effects.jobs
    timer.turn()  # the log is synced
    timer.service.tick(timer.now, 1000)
    assert len(timer.effects.jobs) == 1
    timer.turn()
    found = decode_timer_checkpoint(timer.files.read_file(f"{ROOT}/config/timercheck"))
    assert found.read_time == timer.now


def test_a_checkpoint_in_the_middle_of_a_slot_keeps_all_of_it() -> None:
    timer = Timer()
    for number in range(20):
        timer.put(f"m{number}", TIMER_DELAY_SEC="2")
    timer.turn()
    timer.later(1_000)
    timer.now += 4_000
    timer.send("later", 50_000)  # something to note
    for _ in range(4):
        timer.service.tick(timer.now, 8)
        timer.turn()
    assert 0 < len(timer.delivered()) < 20
    assert isinstance(timer.files, SimulatedFiles)
    disk = timer.files.clone()
    disk.power_cut(0)
    timer = timer.again(disk)
    timer.later(1_000)
    assert set(timer.delivered()) == {f"m{number}" for number in range(20)}


def test_a_failed_sync_leaves_the_checkpoint_where_it_was() -> None:
    timer = Timer()
    timer.send("a", 50_000)
    timer.later(3_000)
    before = timer.files.read_file(f"{ROOT}/config/timercheck")
    timer.send("b", 50_000)
    timer.service.tick(timer.now, 1000)
    timer.now += 2_000
    timer.service.tick(timer.now, 1000)
    assert isinstance(timer.files, SimulatedFiles)
    timer.files.fail_next("datasync")
    timer.turn()
    timer.later(60_000)
    timer.close()
    assert timer.files.read_file(f"{ROOT}/config/timercheck") == before
    assert timer.delivered() == ["a", "b"]


@pytest.mark.parametrize("what", ["timerwheel", "timerlog", "precision"])
def test_lost_files_are_made_again_from_the_queue(what: str) -> None:
    timer = Timer(timer_roll_window_slot=30)
    for second in range(1, 90, 4):
        timer.send(f"m{second}", second * 1000)
    timer.send("d", 81_000, TIMER_DEL_UNIQKEY="m81")
    timer.later(40_000)
    timer.close()
    settings = {}
    if what == "precision":
        settings = {"timer_precision_ms": 500}
    elif what == "timerwheel":
        timer.files.remove(f"{ROOT}/timerwheel")
    else:
        for name in timer.files.list_dir(f"{ROOT}/timerlog"):
            timer.files.remove(f"{ROOT}/timerlog/{name}")
    timer = timer.again(**settings)
    assert "enqueued again" in timer.store.upkeep.problem
    timer.later(60_000)
    assert timer.delivered() == [f"m{second}" for second in range(1, 90, 4) if second != 81]
    timer.close()
    timer = timer.again(**settings)
    assert not timer.store.upkeep.problem


def test_a_damaged_unit_is_noticed_and_everything_enqueued_again() -> None:
    timer = Timer()
    for number in range(20):
        timer.send(f"m{number}", 10_000 + number * 1000)
    timer.later(5_000)
    timer.close()
    name = timer.files.list_dir(f"{ROOT}/timerlog")[1]
    handle = timer.files.open(f"{ROOT}/timerlog/{name}")
    timer.files.write_at(handle, [bytes(100)], 0)
    timer.files.close(handle)
    timer = timer.again()
    timer.later(60_000)
    assert timer.delivered() == [f"m{number}" for number in range(20)]
    assert "damaged" in timer.store.upkeep.problem


def test_files_of_the_timer_log_go_with_their_records() -> None:
    timer = Timer()
    for number in range(40):
        timer.send(f"m{number}", 1_000)
        timer.later(1_000)
    timer.later(31_000)
    assert len(timer.files.list_dir(f"{ROOT}/timerlog")) == 6
    timer.wheel.log.delete_before(int(timer.store.end_offset))
    assert len(timer.files.list_dir(f"{ROOT}/timerlog")) == 1
    timer.send("after", 2_000)
    timer.later(3_000)
    timer.close()
    timer = timer.again()
    timer.send("last", 2_000)
    timer.later(3_000)
    assert timer.delivered()[40:] == ["after", "last"]
