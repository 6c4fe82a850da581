"""A deleted topic stays deleted, and one of the same name made later loses nothing: crashes, power cuts, faults."""

from __future__ import annotations

import pytest

from bolide.layout.deleted_topics import NAME, mark_line, parse_marks
from bolide.layout.errors import LayoutError
from bolide.store.disk.files import FileFailed
from bolide.store.disk.jobs import RemoveFiles
from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from bolide.store.offline.verify import verify_store
from bolide.store.queues.deleted_topics import SPARE_LINES, DeletedTopics
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ALL, ASYNC, ROOT, SHAPE, START, Machine, Sent, missing


def recreated(machine: Machine) -> list[Sent]:
    """Nine old messages, the deletion, nine new ones; the new ones."""
    machine.turn(9)
    machine.store.delete_topic("T")
    machine.acknowledged.clear()
    machine.turn(9)
    return machine.acknowledged


def only(machine: Machine, sent: list[Sent]) -> None:
    """The topic holds these messages, each where it was said to be, and nothing else."""
    store = machine.store
    assert not missing(store, sent)
    assert sum(
        int(store.max_queue_offset("T", queue) - store.min_queue_offset("T", queue)) for queue in range(3)
    ) == len(sent)
    for number in range(3):
        assert store.next_queue_offset("T", number) == store.max_queue_offset("T", number)


@pytest.mark.parametrize("end", ["crash", "restart", "power cut"])
def test_deleted_messages_do_not_come_back(end: str) -> None:
    machine = Machine()
    sent = recreated(machine)
    for _ in range(2):
        if end == "crash":
            machine.crash()
        elif end == "restart":
            machine.restart()
        else:
            machine.power_cut(0)
        only(machine, sent)


def test_nor_in_a_store_whose_queues_are_made_again() -> None:
    machine = Machine()
    sent = recreated(machine)
    machine.store.close(machine.now)
    for queue in range(3):
        for name in machine.files.list_dir(f"{ROOT}/consumequeue/T/{queue}"):
            machine.files.remove(f"{ROOT}/consumequeue/T/{queue}/{name}")
    machine.crash()
    only(machine, sent)
    machine.store.close(machine.now)
    assert verify_store(machine.files, ROOT, SHAPE).findings == []


def test_nor_by_their_keys() -> None:
    machine = Machine()
    machine.turn(9)
    assert machine.store.query_messages("T", "K1", 32, 0, START * 2).records
    machine.store.delete_topic("T")
    assert not machine.store.query_messages("T", "K1", 32, 0, START * 2).records
    machine.turn(1)
    assert machine.store.query_messages("T", "K9", 32, 0, START * 2).records


@pytest.mark.parametrize("options", [None, ASYNC])
def test_messages_of_the_turn_in_which_the_topic_is_deleted(options: object) -> None:
    machine = Machine(options=ASYNC) if options else Machine()
    machine.turn(9)
    machine.append(4)
    machine.store.delete_topic("T")
    machine.waiting.clear()
    machine.acknowledged.clear()
    machine.append(5)
    machine.write()
    machine.flush()
    assert len(machine.acknowledged) == 5
    only(machine, machine.acknowledged)
    machine.crash()
    only(machine, machine.acknowledged)


def test_a_turn_that_is_taken_back_takes_the_mark_back_to_where_the_log_ends() -> None:
    machine = Machine()
    machine.turn(9)
    machine.append(6)
    machine.store.delete_topic("T")
    machine.append(3)
    machine.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        machine.write()
    machine.waiting.clear()
    machine.acknowledged.clear()
    machine.turn(3)
    only(machine, machine.acknowledged)
    machine.crash()
    only(machine, machine.acknowledged)


def test_while_the_lowered_mark_cannot_be_written_nothing_is() -> None:
    machine = Machine()
    machine.turn(9)
    machine.append(6)
    machine.store.delete_topic("T")
    machine.files.fail_next("write_at")
    with pytest.raises(FileFailed):
        machine.write()
    machine.waiting.clear()
    machine.acknowledged.clear()
    machine.append(2)
    machine.files.fail_next("write_file")
    with pytest.raises(FileFailed):
        machine.write()
    machine.waiting.clear()
    machine.turn(3)
    only(machine, machine.acknowledged)
    machine.crash()
    only(machine, machine.acknowledged)


def test_a_log_that_lost_its_end_takes_the_mark_along() -> None:
    machine = Machine(options=ASYNC)
    machine.turn(3)
    machine.store.flush_soon()
    machine.tick()
    machine.flush()
    kept = machine.store.flushed_offset
    machine.turn(6)
    machine.store.delete_topic("T")
    machine.power_cut(0)
    assert machine.store.end_offset == kept > 0
    machine.acknowledged.clear()
    machine.turn(6)
    machine.crash()
    only(machine, machine.acknowledged)


@pytest.mark.parametrize("call", ["open", "write_at", "datasync"])
def test_a_mark_that_cannot_be_written_deletes_nothing(call: str) -> None:
    machine = Machine()
    machine.turn(9)
    machine.store.queues.flush(True)
    machine.files.fail_next(call)
    with pytest.raises(FileFailed):
        machine.store.delete_topic("T")
    machine.files.faults_over()
    only(machine, machine.acknowledged)
    machine.store.delete_topic("T")
    assert machine.store.max_queue_offset("T", 0) == 0


@pytest.mark.parametrize("more", [True, False])
@pytest.mark.parametrize("call", ["datasync", "sync_dir"])
def test_a_mark_of_a_deletion_that_failed_takes_no_message_of_a_topic_that_lives_on(call: str, more: bool) -> None:
    machine = Machine()
    machine.turn(9)
    machine.files.fail_next(call)
    with pytest.raises(FileFailed):
        machine.store.delete_topic("T")
    if not more:
        machine.restart()
        only(machine, machine.acknowledged)
    machine.turn(9)
    for _ in range(2):
        machine.crash()
        only(machine, machine.acknowledged)


def test_every_crash_of_a_deletion_leaves_all_or_nothing() -> None:
    whole = Machine()
    whole.turn(30)
    whole.tick(61_000)
    whole.files.process_crash()
    count = 0
    for stop in range(40):
        machine = Machine(files=whole.files.clone(), now=whole.now)
        begun = machine.files.calls
        machine.files.stop_after = begun + stop
        try:
            machine.store.delete_topic("T")
        except BaseException:
            count += 1
        machine.power_cut(stop)
        left = sum(len(machine.store.units("T", queue, 0, ALL)) for queue in range(3))
        assert left in (0, 30), f"{left} messages after a crash at call {stop}"
    assert count > 3


def test_marks_below_the_log_are_forgotten_and_torn_lines_too() -> None:
    files = SimulatedFiles()
    files.make_dir(ROOT)
    files.write_file(f"{ROOT}/{NAME}", mark_line("A", 100) + mark_line("B", 900) + b'{"topic": "C", "off')
    marks = DeletedTopics(files, ROOT)
    marks.load()
    assert marks.marks == {"A": 100, "B": 900}
    marks.start(500, 1000)
    marks.add("D", 950)
    again = DeletedTopics(files, ROOT)
    again.load()
    assert again.marks == {"B": 900, "D": 950}


def test_a_store_that_runs_forgets_marks_once_the_log_files_below_them_are_gone() -> None:
    machine = Machine()
    deleted = machine.store.queues.deleted
    for round_ in range(2 * SPARE_LINES):
        machine.turn(3)
        machine.store.delete_topic("T")
        deleted.add(f"gone-{round_}", int(machine.store.end_offset))
    assert len(deleted.marks) == 2 * SPARE_LINES + 1
    segments = machine.store.log.segments
    first = segments.detach_before(segments.segment_starts()[-1], 1)
    removal = RemoveFiles(machine.files, first)
    before = dict(deleted.marks)
    machine.store.job_done(removal, "EIO")  # the files are still there
    assert deleted.marks == before
    machine.store.job_done(removal, "")  # what failed is tried again
    assert deleted.marks == before
    (again,) = [job for job in machine.store.jobs() if isinstance(job, RemoveFiles)]
    machine.store.job_done(again, "")
    start = int(segments.min_offset)
    assert deleted.marks == {topic: offset for topic, offset in before.items() if offset > start} != before
    deleted.forget_below(int(machine.store.end_offset))
    deleted.add("last", int(machine.store.end_offset) + 1)
    data = machine.files.read_file(f"{ROOT}/{NAME}")
    assert data == mark_line("last", int(machine.store.end_offset) + 1)
    deleted.add("and one more", int(machine.store.end_offset) + 1)
    loaded = DeletedTopics(machine.files, ROOT)
    loaded.load()
    assert loaded.marks == deleted.marks and len(loaded.marks) == 2


@pytest.mark.parametrize("whole", [False, True])
def test_a_full_disk_takes_no_mark_and_leaves_no_line(whole: bool) -> None:
    files = FullDisk()
    files.make_dir(ROOT)
    marks = DeletedTopics(files, ROOT)
    for number in range(3 * SPARE_LINES if whole else 3):
        marks.add(f"T{number}", 10 + number)
    marks.forget_below(9 + 3 * SPARE_LINES if whole else 11)
    before = dict(marks.marks)
    files.full = True
    with pytest.raises(FileFailed):
        marks.add("new", 500)
    assert marks.marks == before
    files.full = False
    marks.save()  # what comes before the next message
    again = DeletedTopics(files, ROOT)
    again.load()
    assert again.marks == before


class FullDisk(SimulatedFiles):
    """Takes no byte while `full`."""

    full = False

    def write_at(self, handle: int, buffers: list[bytes], offset: int) -> None:
        if self.full:
            raise FileFailed("no space")
        super().write_at(handle, buffers, offset)

    def write_file(self, path: str, data: bytes) -> None:
        if self.full:
            raise FileFailed("no space")
        super().write_file(path, data)


def test_a_mark_that_cannot_be_read_refuses_the_start() -> None:
    machine = Machine()
    recreated(machine)
    machine.store.close(machine.now)
    machine.files.write_file(f"{ROOT}/{NAME}", b"?\n")
    with pytest.raises(StoreDamaged, match="line 1 of deleted-topics is not a valid mark"):
        MessageStore(machine.files, ROOT, SHAPE).load(machine.now)


@pytest.mark.parametrize("line", [b'{"topic": "T", "offset": 1e999}', b"[" * 100_000, b'{"topic": "T"}'])
def test_no_line_is_read_as_something_else(line: bytes) -> None:
    with pytest.raises(LayoutError, match="line 1 of deleted-topics"):
        parse_marks(line + b"\n")
