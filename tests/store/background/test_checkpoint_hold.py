"""Retention deletes only log files that the checkpoint covers, so queues never assign an offset twice after a kill."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bolide.store.disk.files import DiskFull
from bolide.store.disk.jobs import RemoveFiles
from bolide.store.raw_log import RawLog
from tests.store.scenario import ROOT, SHAPE, Machine, missing, units_agree

FILE = int(SHAPE.commit_log_segment_size)
KEPT = 3
"""Log files before the checkpoint."""


def turns(machine: Machine, files: int) -> None:
    """Send to topic T until the log has this number of files."""
    while len(machine.store.log.segments.segment_starts()) < files:
        machine.turn()


def send_once(machine: Machine) -> None:
    """Send one message to each queue of topic U, which gets no more messages."""
    machine.append(6, "U")
    machine.write()
    machine.flush()


def master(after_checkpoint: Callable[[Machine], None]) -> Machine:
    """A master with `KEPT` log files, a checkpoint, and then the messages of the argument. Its next round of retention
    is due in ten seconds, its next checkpoint in a minute."""
    machine = Machine()
    send_once(machine)
    turns(machine, KEPT)
    machine.turn(2)
    machine.tick(61_000)
    after_checkpoint(machine)
    return machine


def slave(after_checkpoint: Callable[[Machine], None]) -> Machine:
    """A slave with the log of `master`, which wrote its checkpoint at the same offset."""
    source = Machine()
    send_once(source)
    turns(source, KEPT)
    source.turn(2)
    first = int(source.store.end_offset)
    after_checkpoint(source)
    machine = Machine()
    raw = RawLog(machine.store)
    raw.follow()
    for begin, end in ((0, first), (first, int(source.store.end_offset))):
        raw.append(begin, bytes(source.store.log.segments.read(begin, end - begin)), machine.now)
        machine.flush()
        if begin == 0:
            machine.tick(61_000)
    machine.acknowledged = source.acknowledged
    return machine


def fill(machine: Machine) -> None:
    """Messages of an idle topic, and then enough of another that retention can delete them."""
    send_once(machine)
    turns(machine, 12)


def log_begin(machine: Machine) -> int:
    """Start of the oldest log file on the disk."""
    return int(machine.files.list_dir(f"{ROOT}/commitlog")[0])


def seconds(machine: Machine, count: int) -> set[str]:
    """Let a node run for some seconds. Return what it logs."""
    problems = set()
    for _ in range(count):
        machine.now += 1000
        machine.files.now_ms = machine.now
        machine.store.tick(machine.now)
        problems.add(machine.store.maintenance.take_problem())
        machine.run_jobs()
        problems.add(machine.store.maintenance.take_problem())
    return problems - {""}


def ends(machine: Machine) -> list[int]:
    return [int(machine.store.next_queue_offset(topic, queue)) for topic in ("T", "U") for queue in range(3)]


def cuts(seed: int) -> Callable[[Machine], None]:
    return lambda machine: machine.power_cut(seed)


@pytest.mark.parametrize("stop", [Machine.crash, *map(cuts, range(6))])
@pytest.mark.parametrize("role", [master, slave])
def test_no_offset_is_reused_after_forced_retention(
    role: Callable[[Callable[[Machine], None]], Machine], stop: Callable[[Machine], None]
) -> None:
    for rounds in range(3):
        machine = role(fill)
        before = ends(machine)
        assert before[3:] == [4, 4, 4]
        machine.files.use = 0.86
        assert seconds(machine, 10 * rounds) == set()
        deleted = log_begin(machine)
        stop(machine)
        assert ends(machine) == before, rounds
        assert (deleted > FILE * KEPT) == (rounds == 2), "the first round requests a checkpoint"
        begin = machine.store.min_physical_offset()
        kept = [sent for sent in machine.acknowledged if sent.at.physical_offset >= begin]
        assert kept and not missing(machine.store, kept)
        assert not units_agree(machine.store)


def test_first_round_deletes_files_before_the_checkpoint_only() -> None:
    machine = master(fill)
    covered = machine.store.maintenance.checkpoint.logics_physical_offset
    machine.files.use = 0.86
    seconds(machine, 10)
    assert covered % FILE and log_begin(machine) == covered - covered % FILE > 0
    seconds(machine, 1)
    assert machine.store.maintenance.checkpoint.logics_physical_offset > covered, "early, on request"
    seconds(machine, 9)
    assert log_begin(machine) == 11 * FILE


def test_full_disk_without_room_for_units_keeps_files_after_the_checkpoint() -> None:
    machine = master(fill)
    before, covered = ends(machine), machine.store.maintenance.checkpoint.logics_physical_offset

    def no_room(call: str) -> None:
        if call in ("write_at", "write_file", "open"):
            raise DiskFull("cannot write: no room")

    machine.files.before_change = no_room
    machine.files.use = 0.99
    said = seconds(machine, 30)
    held = covered - covered % FILE
    assert log_begin(machine) == held
    assert (
        f"retention cannot delete log files of {ROOT} from offset {held} on, because queues and index on disk do not "
        "have their messages: free space on the disk"
    ) in said
    disk = machine.files.clone()
    machine.files.before_change = None  # an operator has freed some space, and the disk is still above the ratio
    seconds(machine, 20)
    assert log_begin(machine) == 11 * FILE
    for files in (machine.files, disk):
        files.before_change = None
        machine.files = files
        machine.crash()
        assert ends(machine) == before


def test_failed_sync_of_queues_holds_retention_until_a_restart() -> None:
    machine = master(fill)
    before, covered = ends(machine), machine.store.maintenance.checkpoint.logics_physical_offset
    held = covered - covered % FILE
    machine.files.fail_next("datasync")
    machine.tick(61_000)
    machine.files.faults_over()
    assert machine.store.maintenance.sync_failed
    machine.files.use = 0.86
    said = seconds(machine, 30)
    assert log_begin(machine) == held
    assert any(text.endswith("have their messages: restart the broker") for text in said)
    machine.restart()
    assert machine.report.abnormal and ends(machine) == before
    seconds(machine, 61)
    assert log_begin(machine) == 11 * FILE
    machine.power_cut(0)
    assert ends(machine) == before


@pytest.mark.parametrize("start", [Machine.crash, Machine.restart])
def test_retention_after_a_start_does_not_wait_for_a_message(start: Callable[[Machine], None]) -> None:
    """A full disk rejects all sends, so the checkpoint has to advance without them."""
    machine = master(fill)
    before = ends(machine)
    machine.files.use = 0.95
    for again in (Machine.crash, start):
        again(machine)
    assert not machine.store.writable()
    assert seconds(machine, 61) == set()
    assert log_begin(machine) > KEPT * FILE
    machine.power_cut(0)
    assert ends(machine) == before


def test_checkpoint_after_a_truncation_is_not_ahead_of_dispatch() -> None:
    machine = master(fill)
    end = machine.acknowledged[-3].at.physical_offset
    machine.tick(61_000)
    machine.store.log_cut.run(end, machine.now)
    machine.append(6)
    machine.write()
    target = machine.store.flush_target(machine.now)
    machine.store.sync_commit_log(target)
    machine.store.flushed(target)  # synced, and not yet dispatched
    machine.tick(61_000)
    assert machine.store.maintenance.checkpoint.logics_physical_offset == end - 1


def test_removal_starts_after_the_checkpoint_is_on_disk() -> None:
    machine = master(fill)
    machine.files.use = 0.86
    seconds(machine, 10)
    for _ in range(3):  # the pool is slow: it takes the job that writes the checkpoint, and does not run it
        machine.now += 10_000
        machine.store.tick(machine.now)
        assert not [job for job in machine.store.jobs() if isinstance(job, RemoveFiles)]
