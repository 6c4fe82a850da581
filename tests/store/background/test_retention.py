"""Retention by time and by disk use, the flag for a full disk, and files that are being read."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bolide.store.background.running_flags import (
    DISK_FULL,
    INDEX_ERROR,
    LOGIC_QUEUE_ERROR,
    NOT_READABLE,
    NOT_WRITABLE,
    RunningFlags,
)
from bolide.store.disk.files import DiskFull, FileFailed
from bolide.store.disk.jobs import Job, MakeSegment, RemoveFiles
from bolide.store.errors import ServiceNotAvailable
from bolide.store.options import StoreOptions
from bolide.store.reading.read_result import MESSAGE_WAS_REMOVING, OFFSET_TOO_SMALL
from tests.store.scenario import ALL, ROOT, START, Machine, missing, units_agree

HOUR = 3_600_000
DAY = 24 * HOUR
FOUR_O_CLOCK = START // DAY * DAY + DAY + 4 * HOUR


def machine_with_files(count: int = 12, **options: object) -> Machine:
    """A store with that many log files, all changed at START."""
    machine = Machine(options=StoreOptions(**options))  # type: ignore[arg-type]  # keywords of the dataclass
    while len(machine.store.log.segments.segment_starts()) < count:
        machine.turn(5)
    machine.tick(1000)
    return machine


def go_to(machine: Machine, time: int) -> None:
    """Let the clock jump, and the cleaner have its round."""
    machine.tick(time - machine.now)


def log_files(machine: Machine) -> int:
    return len(machine.files.list_dir(f"{ROOT}/commitlog"))


def test_expired_files_go_at_the_hour_ten_at_a_time() -> None:
    machine = machine_with_files(16)
    count = log_files(machine)
    go_to(machine, FOUR_O_CLOCK + DAY)
    assert log_files(machine) == count, "two days are not three"
    go_to(machine, FOUR_O_CLOCK + 3 * DAY - HOUR)
    assert log_files(machine) == count, "not the hour"
    go_to(machine, FOUR_O_CLOCK + 3 * DAY)
    assert log_files(machine) == count - 10
    machine.tick(10_000)
    assert log_files(machine) == 1, "the last file stays"


def test_a_file_that_the_pool_may_still_make_stays() -> None:
    machine = machine_with_files(4)
    while not (late := [job for job in machine.store.jobs() if isinstance(job, MakeSegment)]):
        machine.turn(1)  # the pool takes the job, and does not come to it
    while len(machine.store.log.segments.segment_starts()) < 10:
        machine.turn(5)
    machine.tick(61_000)
    machine.now = FOUR_O_CLOCK + 3 * DAY
    machine.store.tick(machine.now)
    kept = machine.store.log.segments.segment_starts()
    assert kept[0] == late[0].start, "it could come back empty, after the writer made it and retention deleted it"
    late[0].run()
    machine.store.job_done(late[0])
    machine.tick(10_000)
    assert len(machine.store.log.segments.segment_starts()) == 1
    machine.crash()
    assert not missing(machine.store, machine.acknowledged[-1:])


def test_queues_and_index_follow_the_log() -> None:
    machine = machine_with_files(12)
    queue_files = len(machine.files.list_dir(f"{ROOT}/consumequeue/T/0"))
    index_files = len(machine.files.list_dir(f"{ROOT}/index"))
    go_to(machine, FOUR_O_CLOCK + 3 * DAY)
    low = machine.store.min_physical_offset()
    assert low > 0
    assert len(machine.files.list_dir(f"{ROOT}/consumequeue/T/0")) < queue_files
    assert len(machine.files.list_dir(f"{ROOT}/index")) < index_files
    first = machine.store.min_queue_offset("T", 0)
    assert machine.store.units("T", 0, first, 1)[0][0] >= low
    assert machine.store.read("T", 0, 0, max_count=1, max_bytes=ALL).status == OFFSET_TOO_SMALL
    kept = [sent for sent in machine.acknowledged if sent.at.physical_offset >= low]
    machine.acknowledged = kept
    for again in (machine.restart, machine.crash):
        again()
        assert not missing(machine.store, kept)
        assert machine.store.min_queue_offset("T", 0) == first


def test_queues_are_cleaned_when_asked_but_not_before_the_log_files_are_gone() -> None:
    machine = machine_with_files(12)
    store = machine.store
    segments = store.log.segments
    queue_files = len(machine.files.list_dir(f"{ROOT}/consumequeue/T/0"))
    removal = RemoveFiles(machine.files, segments.detach_before(segments.segment_starts()[-1], 8))
    store.job_done(removal, "EIO")  # detached, but still on the disk: a loss of power may bring them back
    assert store.maintenance.clean_derived() == ""
    assert len(machine.files.list_dir(f"{ROOT}/consumequeue/T/0")) == queue_files
    store.job_done(removal, "")
    (again,) = [job for job in store.jobs() if isinstance(job, RemoveFiles)]
    again.run()
    store.job_done(again, "")
    segments.delete_before(segments.segment_starts()[-1])
    before = len(machine.files.list_dir(f"{ROOT}/consumequeue/T/0"))
    assert store.maintenance.clean_derived() == ""
    assert len(machine.files.list_dir(f"{ROOT}/consumequeue/T/0")) < before
    assert store.min_queue_offset("T", 0) > 0


def test_reading_at_units_whose_log_is_gone_says_so() -> None:
    machine = machine_with_files(12)
    machine.store.log.segments.delete_before(3 * 4096)
    result = machine.store.read("T", 0, 0, max_count=1, max_bytes=ALL)
    assert result.status in (MESSAGE_WAS_REMOVING, 0)


@pytest.mark.parametrize(
    ("use", "expired", "left"),
    [
        (0.70, True, 12),  # nothing to do outside the hour
        (0.76, True, 2),  # over 75: expired files go at any hour
        (0.76, False, 12),
        (0.86, False, 2),  # over 85: the oldest go even if not expired
    ],
)
def test_a_filling_disk_makes_files_go_earlier(use: float, expired: bool, left: int) -> None:
    machine = machine_with_files(12)
    machine.files.use = use
    go_to(machine, FOUR_O_CLOCK + (3 * DAY if expired else 0) + 6 * HOUR)
    assert log_files(machine) == left


def test_forcing_can_be_switched_off() -> None:
    machine = machine_with_files(12, clean_file_forcibly_enable=False)
    machine.files.use = 0.89
    go_to(machine, FOUR_O_CLOCK + 6 * HOUR)
    assert log_files(machine) == 12


def test_a_full_disk_refuses_sends_until_use_is_back_at_the_lower_ratio() -> None:
    machine = machine_with_files(2)
    for use, writable in ((0.91, False), (0.88, False), (0.85, True), (0.88, True), (0.95, False)):
        machine.files.use = use
        machine.tick(70_000)
        assert machine.store.writable() == writable, use
    with pytest.raises(ServiceNotAvailable, match="the disk is full") as refusal:
        machine.append()
    assert refusal.value.code == 14
    assert machine.store.readable(), "a pull is still served"
    machine.store.close(machine.now)
    assert machine.files.size(f"{ROOT}/abort") >= 0, "as in Java"


def test_the_operator_can_ask_for_it() -> None:
    machine = machine_with_files(12)
    go_to(machine, FOUR_O_CLOCK + 3 * DAY + 6 * HOUR)
    assert log_files(machine) == 12
    machine.store.delete_expired(machine.now)
    machine.tick(1)
    assert log_files(machine) == 2


def test_a_power_cut_while_files_are_deleted_leaves_a_log_that_opens() -> None:
    machine = machine_with_files(12)
    machine.now = FOUR_O_CLOCK + 3 * DAY
    machine.store.tick(machine.now)
    (job,) = [job for job in machine.store.jobs() if job.name.startswith("delete")]
    disks = []
    machine.files.before_change = lambda call: disks.append(machine.files.clone())
    job.run()
    machine.files.before_change = None
    assert len(disks) == 20
    low = machine.store.min_physical_offset()
    for number, disk in enumerate(disks):
        other = Machine.__new__(Machine)
        disk.power_cut(number % 5)
        other.files, other.options, other.shape, other.now = disk, machine.options, machine.shape, machine.now
        other.root = ROOT
        other._load()
        assert other.store.min_physical_offset() <= low, "what is not deleted yet is found again, and expires again"
        assert not missing(other.store, [sent for sent in machine.acknowledged if sent.at.physical_offset >= low])


def test_files_of_queues_stay_until_those_of_the_log_are_gone() -> None:
    """A queue whose files went first would number its messages from 0 on if the power failed in between."""
    machine = machine_with_files(40)
    queue = f"{ROOT}/consumequeue/T/0"
    names = machine.files.list_dir(queue)
    low = machine.store.min_queue_offset("T", 0)
    machine.store.delete_expired(FOUR_O_CLOCK + 3 * DAY)
    for _ in range(3):
        (job,) = removals(machine, FOUR_O_CLOCK + 3 * DAY)
        assert machine.store.min_queue_offset("T", 0) > low and machine.files.list_dir(queue) == names
        machine.store.job_done(job, "simulated")
    (job,) = removals(machine)
    job.run()
    assert machine.files.list_dir(queue) == names
    machine.store.job_done(job)
    assert machine.files.list_dir(queue) == names[len(names) - len(machine.files.list_dir(queue)) :] != names


def removals(machine: Machine, least: int = 0) -> list[Job]:
    """Jobs of one more round of the cleaner."""
    machine.now = max(machine.now + 10_000, least)
    machine.store.tick(machine.now)
    return [job for job in machine.store.jobs() if job.name.startswith("delete")]


def test_files_are_deleted_by_one_job_at_a_time_so_that_no_newer_one_goes_first() -> None:
    machine = machine_with_files(25)
    names = machine.files.list_dir(f"{ROOT}/commitlog")
    machine.now = FOUR_O_CLOCK + 3 * DAY
    (first,) = removals(machine)
    assert removals(machine) == [], "the first ten are still being deleted"
    machine.files.fail_next("remove")
    with pytest.raises(FileFailed):
        first.run()
    machine.store.job_done(first, "simulated")
    (again,) = removals(machine)
    again.run()
    left = machine.files.list_dir(f"{ROOT}/commitlog")
    assert left == names[-len(left) :] and len(left) <= len(names) - 20
    machine.store.job_done(again)
    machine.restart()
    assert machine.store.min_physical_offset() == int(left[0])


def test_next_removal_starts_when_the_job_is_done() -> None:
    machine = machine_with_files(25)
    machine.now = FOUR_O_CLOCK + 3 * DAY
    (first,) = removals(machine)
    assert removals(machine) == []
    count = log_files(machine)
    first.run()
    machine.store.job_done(first)
    machine.run_jobs()
    assert log_files(machine) == count - 20


class TestFlags:
    def test_flags_forbid_their_operations(self) -> None:
        flags = RunningFlags()
        assert flags.writable() and flags.readable() and flags.dispatch_allowed() and flags.describe() == ""
        flags.set(NOT_READABLE)
        assert flags.writable() and not flags.readable()
        flags.clear(NOT_READABLE)
        for bit in (DISK_FULL, LOGIC_QUEUE_ERROR, INDEX_ERROR):
            flags.set(bit)
            assert not flags.writable() and flags.readable()
            assert flags.dispatch_allowed(), "what hinders it may end"
            assert flags.describe()
            flags.clear(bit)
        assert flags.bits == 0
        flags.set(NOT_WRITABLE)
        assert not flags.dispatch_allowed()

    def test_queues_that_cannot_be_written_stop_sends_after_thirty_tries(self) -> None:
        machine = Machine()
        machine.turn(3)
        for attempt in range(30):
            assert machine.store.writable(), attempt
            machine.append_or_nothing()
            machine.write()
            machine.flush()
            machine.files.fail_next("write_at")
            machine.tick(1000)
            machine.files.faults_over()
        assert machine.store.flags.bits == LOGIC_QUEUE_ERROR
        assert "simulated" in machine.store.maintenance.take_problem()
        assert machine.store.readable()
        machine.store.close(machine.now)
        assert machine.files.size(f"{ROOT}/abort") >= 0
        machine.crash()
        assert machine.report.abnormal
        assert not missing(machine.store, machine.acknowledged)
        assert machine.store.writable(), "a restart clears it"

    def test_queues_that_can_be_written_again_let_sends_in(self) -> None:
        machine = Machine()
        machine.turn(3)
        machine.store.maintenance.failed_flushes = 29
        machine.files.fail_next("write_at")
        machine.tick(1000)
        assert machine.store.flags.bits == LOGIC_QUEUE_ERROR
        machine.tick(1000)
        assert machine.store.writable()
        machine.turn(3)
        assert not missing(machine.store, machine.acknowledged)

    def test_an_index_that_cannot_be_made_stops_sends_until_it_can_be(self) -> None:
        machine = Machine()
        machine.append(1)
        machine.write()
        for pause in (0, 1000, 2000, 4000):  # the first try hands over the unit that was put before the index failed
            assert machine.store.writable()
            machine.now += pause
            machine.files.fail_next("open", FileFailed(f"cannot open {machine.store.index.folder}/x: simulated"))
            machine.flush()
            machine.files.faults_over()
        assert machine.store.flags.bits == INDEX_ERROR
        assert machine.store.dispatched_offset == 0, "the record stays first in line"
        machine.now += 3999
        machine.flush()
        assert machine.store.dispatched_offset == 0, "not yet"
        machine.now += 1
        machine.flush()
        assert machine.store.writable()
        machine.turn(5)
        assert len(machine.acknowledged) == 6
        assert not missing(machine.store, machine.acknowledged)

    def test_a_clock_set_back_does_not_lengthen_the_pause(self) -> None:
        machine = Machine()
        machine.append(1)
        machine.write()
        for _ in range(2):
            machine.files.fail_next("open", FileFailed(f"cannot open {machine.store.index.folder}/x: simulated"))
            machine.flush()
        machine.now -= DAY
        machine.flush()
        assert machine.store.dispatched_offset == machine.store.confirm_offset

    @pytest.mark.parametrize("capacity", [True, False])
    def test_sends_come_back_by_themselves_when_a_full_disk_has_room_again(self, capacity: bool) -> None:
        """The disk is full for a minute and a half, then it is not: by its ratios, or only by what writes say."""
        machine = Machine()
        machine.turn(20)
        machine.tick(1000)
        full = True

        def no_room(call: str) -> None:
            if full and call in ("write_at", "write_file", "open"):
                raise DiskFull("cannot write: no room")

        machine.files.before_change = no_room
        machine.files.use = 0.99 if capacity else 0.5
        refused = 0
        for _ in range(900):
            try:
                machine.append()
                machine.write()
            except (ServiceNotAvailable, DiskFull):
                refused += 1
                machine.waiting.clear()
            machine.flush()
            machine.tick(100)
        assert refused == 900 and not machine.store.writable()
        full = False
        machine.files.use = 0.5
        for _ in range(90):
            machine.tick(100)
        machine.turn(30)
        assert machine.store.flags.describe() == ""
        assert len(machine.acknowledged) == 50
        machine.tick(61_000)
        for again in (machine.restart, machine.crash):
            again()
            assert not missing(machine.store, machine.acknowledged)
            assert not units_agree(machine.store)

    def test_queues_and_index_without_descriptors_for_a_minute_lose_nothing(self) -> None:
        """Every file but the log's own is refused, as when all descriptors are taken."""
        machine = Machine()
        machine.turn(20)
        machine.tick(1000)
        refused = True

        def too_many(call: str) -> None:
            if refused and call in ("open", "write_file", "datasync", "sync_dir"):
                raise FileFailed("cannot open: Too many open files")

        taken = 0
        machine.files.before_change = too_many
        for _ in range(60):
            try:
                machine.append()
                machine.write()
                taken += 1
            except (ServiceNotAvailable, FileFailed):
                written = machine.store.written_offset
                machine.waiting = [sent for sent in machine.waiting if sent.at.end_offset <= written]
            machine.dispatch()
            machine.tick(1000)
        refused = False
        for _ in range(6):
            machine.flush()
            machine.tick(1000)
        assert machine.store.writable(), machine.store.flags.describe()
        machine.turn(30)
        assert len(machine.acknowledged) == 50 + taken
        machine.tick(61_000)
        for again in (machine.restart, machine.crash):
            again()
            assert not missing(machine.store, machine.acknowledged)
            assert not units_agree(machine.store)

    def test_a_disk_that_was_full_at_the_start_is_looked_at_again_soon(self) -> None:
        machine = Machine()
        machine.turn(3)
        machine.store.close(machine.now)
        machine.files.use = 0.95
        machine._load()
        assert not machine.store.writable()
        machine.files.use = 0.5
        assert machine.store.due(machine.now) <= machine.now + 1000
        machine.tick(1000)
        assert machine.store.writable()

    def test_a_quota_that_the_ratios_do_not_show_is_tried_less_and_less_often(self) -> None:
        machine = Machine()
        machine.turn(3)
        machine.files.use = 0.87
        tries = []
        for _ in range(400):
            if machine.store.writable():
                machine.files.fail_next("write_at", DiskFull("quota"))
                with pytest.raises(DiskFull):
                    machine.turn()
                machine.waiting.clear()
                tries.append(machine.now)
                machine.files.faults_over()
            machine.tick(100)
        pauses = [(after - before) // 1000 for before, after in pairwise(tries)]
        assert pauses[:5] == [1, 2, 4, 8, 8]
        machine.tick(8000)
        machine.turn(3)
        assert len(machine.acknowledged) == 6

    @pytest.mark.parametrize("at_a_flush", [True, False])
    def test_a_sync_of_the_index_that_failed_ends_the_checkpoint(self, at_a_flush: bool) -> None:
        machine = Machine()
        machine.turn(3)
        machine.tick(1000)
        machine.turn(20)
        before = machine.store.maintenance.checkpoint
        if at_a_flush:
            machine.turn(20)  # its first index file is full, and to be synced
            machine.files.fail_next("datasync")
            machine.tick(1000)
        else:
            machine.append(20)
            machine.write()
            target = machine.store.flush_target(machine.now)
            machine.store.sync_commit_log(target)
            machine.store.flushed(target)
            machine.files.fail_next("sync_dir")  # of the names of index files, as the second one is begun
            machine.dispatch()
        machine.files.faults_over()
        machine.now += 1000
        machine.flush()
        for _ in range(3):
            machine.tick(61_000)
        assert machine.store.maintenance.checkpoint.logics_physical_offset == before.logics_physical_offset
        assert len(machine.acknowledged) == 43 and machine.store.writable()
        machine.restart()
        assert machine.report.abnormal
        assert not missing(machine.store, machine.acknowledged)

    def test_a_sync_of_queues_that_failed_is_not_tried_again_but_one_without_descriptors_is(self) -> None:
        machine = Machine()
        machine.turn(3)
        machine.tick(1000)
        before = machine.store.maintenance.checkpoint
        machine.turn(3)
        machine.store.queues.flush()
        machine.store.index.flush()
        machine.files.fail_next("write_at", FileFailed("cannot open: Too many open files"))
        machine.tick(61_000)
        assert machine.store.maintenance.checkpoint.logics_physical_offset == before.logics_physical_offset
        machine.files.faults_over()
        machine.tick(1000)
        machine.tick(1000)
        moved = machine.store.maintenance.checkpoint
        assert moved.logics_physical_offset > before.logics_physical_offset
        machine.turn(3)
        machine.files.fail_next("datasync")
        machine.tick(61_000)
        machine.files.faults_over()
        for _ in range(3):
            machine.tick(61_000)
        assert machine.store.maintenance.checkpoint.logics_physical_offset == moved.logics_physical_offset
        machine.restart()
        assert machine.report.abnormal, "such a stop is not a clean one"
        assert not missing(machine.store, machine.acknowledged)
