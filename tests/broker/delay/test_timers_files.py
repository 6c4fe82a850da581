"""The timer's files: full disks, failed syncs, checkpoints, lost and damaged files, and files that go."""

from __future__ import annotations

import pytest

from bolide.broker.cursor.queue_cursor import BYTES_AT_ONCE, MAX_UNCONFIRMED
from bolide.layout.timer_checkpoint import decode_timer_checkpoint
from bolide.store.background.running_flags import NOT_WRITABLE
from bolide.store.disk.files import FileFailed
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import message, properties_of, text
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
        timer.service.tick(timer.now, 5)
        timer.turn()
    assert 0 < len(timer.delivered()) < 20
    assert isinstance(timer.files, SimulatedFiles)
    disk = timer.files.clone()
    disk.power_cut(0)
    timer = timer.again(disk)
    timer.later(1_000)
    assert set(timer.delivered()) == {f"m{number}" for number in range(20)}


def test_a_checkpoint_beyond_the_queue_is_set_back_before_anything_is_stored() -> None:
    """All timers had expired, and a power cut took the units of their queue, which begins at 0 once more."""
    timer = Timer()
    timer.later(3_000)
    timer.service.queue_offset = 1
    timer.later(3_000)
    assert isinstance(timer.files, SimulatedFiles)
    disk = timer.files.clone()
    disk.power_cut(0)
    assert decode_timer_checkpoint(disk.read_file(f"{ROOT}/config/timercheck")).queue_offset == 1
    timer = timer.again(disk)
    timer.send("a", 5_000)
    disk = disk.clone()
    disk.power_cut(0)
    timer = timer.again(disk)
    timer.later(10_000)
    assert timer.delivered() == ["a"]


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
    assert "enqueued again" in timer.store.maintenance.problem
    timer.later(60_000)
    assert timer.delivered() == [f"m{second}" for second in range(1, 90, 4) if second != 81]
    timer.close()
    timer = timer.again(**settings)
    assert not timer.store.maintenance.problem


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
    assert "damaged" in timer.store.maintenance.problem


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


def failed_turn(timer: Timer) -> None:
    """A turn with a tick, whose write of the log fails."""
    timer.service.tick(timer.now, 1000)
    assert isinstance(timer.files, SimulatedFiles)
    timer.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        timer.turn()
    timer.files.faults_over()


def due_in_the_wheel(*keys: str) -> Timer:
    """A timer with these messages in a slot that is due now."""
    timer = Timer()
    for key in keys:
        timer.put(key, TIMER_DELAY_SEC="5")
    timer.turn()
    timer.later(2_000)
    assert timer.wheel.wheel.count == len(keys)
    timer.now += 4_000
    return timer


def test_what_a_failed_write_took_back_is_delivered_again() -> None:
    timer = due_in_the_wheel("a", "b", "c")
    failed_turn(timer)
    # Where the deliveries were, something else is stored now: that it is on disk says nothing of them.
    timer.put("other", topic="Other", big="x" * 3_000)
    timer.turn()
    timer.later(2_000)
    assert timer.delivered() == ["a", "b", "c"]
    timer.close()
    timer = timer.again()
    timer.later(5_000)
    assert timer.delivered() == ["a", "b", "c"]


@pytest.mark.parametrize("stop", ["power cut", "clean"])
def test_no_checkpoint_passes_over_what_was_taken_back(stop: str) -> None:
    timer = due_in_the_wheel("a", "b")
    failed_turn(timer)
    timer.store.flags.set(NOT_WRITABLE)  # and nothing can be delivered for a long time
    timer.later(5_000)
    assert timer.delivered() == [] and timer.service.due(timer.now) is not None
    timer.store.flags.clear(NOT_WRITABLE)
    assert isinstance(timer.files, SimulatedFiles)
    if stop == "clean":
        timer.close()
        disk = timer.files
    else:
        disk = timer.files.clone()
        disk.power_cut(1)
    timer = timer.again(disk)
    timer.later(5_000)
    assert timer.delivered() == ["a", "b"]


def test_a_checkpoint_noted_in_a_turn_that_failed_is_dropped() -> None:
    timer = due_in_the_wheel("a", "b")
    timer.put("later", TIMER_DELIVER_MS=str(timer.now + 50_000))
    timer.turn()
    failed_turn(timer)
    # The log passes the place that was noted, with other records; the deliveries are in memory again, and no further.
    timer.put("other", topic="Other", big="x" * 5_000)
    timer.turn()
    timer.now += 1_000
    timer.service.tick(timer.now, 1000)
    for job, _ in timer.effects.take().jobs:
        job.run()
    assert isinstance(timer.files, SimulatedFiles)
    disk = timer.files.clone()
    disk.power_cut(0)
    timer = timer.again(disk)
    timer.later(5_000)
    assert timer.delivered() == ["a", "b"]


def test_what_was_due_before_it_came_to_the_wheel_is_not_lost_either() -> None:
    timer = Timer()
    timer.send("late", 2_000)
    timer.send("later", 60_000)
    timer.now += 10_000  # the timer had no tick
    failed_turn(timer)
    timer.later(2_000)
    assert timer.delivered() == ["late"]
    assert timer.service.queue_offset == 2 and timer.wheel.wheel.count == 1


def test_a_roll_that_was_taken_back_rolls_again() -> None:
    timer = Timer()
    timer.send("far", 900_000)
    while timer.wheel.wheel.first_time() < 0:
        timer.later(100)
    timer.now = timer.wheel.wheel.first_time() + 2_000
    failed_turn(timer)
    timer.later(2_000)
    assert [properties_of(record).get("TIMER_ROLL_TIMES") for record in timer.waiting()] == [None, "1"]
    timer.later(900_000)
    assert timer.delivered() == ["far"]


def test_a_delete_counts_whether_or_not_a_write_fails() -> None:
    timer = due_in_the_wheel("a", "b")
    timer.now -= 4_000
    timer.send("b-delete", 3_000, TIMER_DEL_UNIQKEY="b")
    timer.later(500)
    timer.now += 4_000
    failed_turn(timer)
    timer.later(2_000)
    assert timer.delivered() == ["a"]


def test_a_turn_that_came_to_no_write_may_still_fail() -> None:
    """Something else raised between the append and the write: the next turn writes both, or loses both."""
    timer = due_in_the_wheel("a", "b")
    timer.service.tick(timer.now, 3)
    failed_turn(timer)
    timer.later(2_000)
    assert sorted(timer.delivered()) == ["a", "b"]


def test_a_write_that_fails_again_keeps_the_order() -> None:
    timer = due_in_the_wheel("a", "b", "c")
    failed_turn(timer)
    timer.now += 1_000
    failed_turn(timer)
    timer.later(2_000)
    assert timer.delivered() == ["a", "b", "c"]
    assert timer.service.metrics.dequeued == 3


def test_a_message_that_cannot_be_stored_is_kept_and_told() -> None:
    timer = due_in_the_wheel("a")
    timer.store.log.max_message_size = 0
    timer.later(2_000)
    assert timer.delivered() == []
    assert "it cannot deliver" in timer.store.maintenance.take_problem()
    timer.store.log.max_message_size = 100
    timer.later(1_000)
    assert timer.delivered() == ["a"]


def test_messages_that_come_in_and_are_not_in_memory_are_read_in_the_pool() -> None:
    timer = Timer()
    for number in range(30):
        timer.put(f"m{number}", TIMER_DELAY_SEC="5")
    timer.turn()
    assert isinstance(timer.files, SimulatedFiles)
    timer.files.cold.update(f"{ROOT}/commitlog/{name}" for name in timer.files.list_dir(f"{ROOT}/commitlog"))
    timer.service.tick(timer.now, 1000)
    assert timer.effects.loads and timer.wheel.wheel.count == 0
    timer.turn()
    timer.later(7_000)
    assert timer.delivered() == [f"m{number}" for number in range(30)]


def test_one_turn_delivers_no_more_than_some_megabytes() -> None:
    timer = Timer()
    most = BYTES_AT_ONCE // 60_000 + 1
    for number in range(most + 5):
        properties = {"UNIQ_KEY": f"m{number}", "TIMER_DELAY_SEC": "5"}
        timer.writer.put(message("T", 0, b"x" * 60_000, text(**properties), 5), timer.now)
    timer.turn()
    timer.later(2_000)
    assert timer.wheel.wheel.count == most + 5
    timer.now += 4_000
    timer.service.tick(timer.now, 1000)
    timer.turn()
    assert most - 2 <= len(timer.delivered()) <= most
    timer.later(100)
    assert len(timer.delivered()) == most + 5


def test_a_log_that_waits_for_the_disk_makes_the_timer_wait() -> None:
    timer = due_in_the_wheel("a")
    timer.store.replicated_offset = timer.store.end_offset
    for _ in range(MAX_UNCONFIRMED // 60_000 + 1):
        timer.writer.put(message("T", 1, b"x" * 60_000, "", 5), timer.now)
    timer.turn()
    end = timer.store.end_offset
    timer.later(100)
    assert timer.store.end_offset == end
    timer.store.replicated_offset = -1
    timer.turn()
    timer.later(1_000)
    assert timer.delivered() == ["a"]
