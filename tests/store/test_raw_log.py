"""The log as bytes: what a slave appends is its master's log, and its own queues and index follow from it."""

from __future__ import annotations

import random

import pytest

from bolide.layout.shape import StoreShape
from bolide.store.disk.extents import Extent
from bolide.store.disk.files import DiskFull
from bolide.store.errors import NotTheLog, RecordDamaged, ServiceNotAvailable
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.raw_log import RawLog
from bolide.store.reading.intact import CheckedSpans
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ASYNC, SHAPE, SYNC, Machine, message

FILE = SHAPE.commit_log_segment_size


def master(records: int = 60, options: StoreOptions = ASYNC) -> Machine:
    """A master with more than two files of records."""
    machine = Machine(options=options)
    for _ in range(records):
        machine.turn()
    return machine


def slave(options: StoreOptions = ASYNC, files: SimulatedFiles | None = None) -> tuple[Machine, RawLog]:
    machine = Machine(files=files or SimulatedFiles(), options=options)
    raw = RawLog(machine.store)
    raw.follow()
    return machine, raw


def log_of(machine: Machine, begin: int = 0) -> bytes:
    """The whole log, blanks included."""
    return bytes(machine.store.log.segments.read(begin, int(machine.store.written_offset) - begin))


def units_of(machine: Machine) -> list[list[tuple[int, int, int]]]:
    return [[tuple(unit) for unit in machine.store.units("T", queue, 0, 1000)] for queue in range(3)]


def copy(of: Machine, to: tuple[Machine, RawLog], draw: random.Random, begin: int = 0) -> None:
    """Send the log in pieces of any size; each is dispatched as far as it is whole."""
    machine, raw = to
    data, at = log_of(of, begin), 0
    while at < len(data):
        size = draw.choice((1, 3, 8, 100, 700, 5000, 20_000))
        raw.append(begin + at, data[at : at + size], machine.now)
        machine.flush()
        at += size


@pytest.mark.parametrize("seed", range(12))
def test_a_copy_in_any_pieces_is_equal_and_readable(seed: int) -> None:
    draw = random.Random(seed)
    of, to = master(), slave(draw.choice((SYNC, ASYNC)))
    copy(of, to, draw)
    machine, raw = to
    assert log_of(machine) == log_of(of)
    assert len(log_of(of)) > 2 * FILE, "blanks are among it"
    assert machine.store.dispatched_offset == of.store.dispatched_offset == raw.settled
    assert units_of(machine) == units_of(of)
    assert not machine.store.reput.take_skips()


def test_a_copy_may_begin_with_any_file() -> None:
    of, to = master(70), slave()
    begin = 2 * FILE
    copy(of, to, random.Random(1), begin)
    machine, raw = to
    assert raw.begin == begin
    assert log_of(machine, begin) == log_of(of, begin)
    assert machine.store.dispatched_offset == of.store.dispatched_offset
    for queue in range(3):
        least = machine.store.min_queue_offset("T", queue)
        assert least > 0
        assert machine.store.units("T", queue, least, 100) == of.store.units("T", queue, least, 100)


def test_append_rejects_a_gap() -> None:
    machine, raw = slave()
    with pytest.raises(NotTheLog, match="do not follow"):
        raw.append(FILE + 1, b"abc", machine.now)
    raw.append(0, log_of(master(3))[:100], machine.now)
    for offset in (0, 99, 101, FILE):
        with pytest.raises(NotTheLog, match="do not follow the log, which ends at 100"):
            raw.append(offset, b"abc", machine.now)
    raw.forget()
    with pytest.raises(NotTheLog, match="ends at 0"):
        raw.append(100, b"abc", machine.now)


@pytest.mark.parametrize("options", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("end", ["clean", "killed", "power"])
@pytest.mark.parametrize("cut", [40, 3, 200])
def test_the_front_of_a_record_does_not_outlive_the_slave(options: StoreOptions, end: str, cut: int) -> None:
    """After a restart the slave's log ends with a whole record, and the rest is sent once more."""
    whole = log_of(master(70))
    machine, raw = slave(options)
    raw.append(0, whole[:-cut], machine.now)
    machine.flush()
    done = int(raw.end)
    assert 0 < done < len(whole) - cut
    assert done == machine.store.dispatched_offset
    if end == "clean":
        machine.store.close(machine.now)
    elif end == "killed":
        machine.files.process_crash()
    else:
        machine.files.power_cut(3)
    again, raw = slave(options, machine.files)
    assert again.report.abnormal == (end != "clean")
    if end == "power" and options is ASYNC:
        assert raw.end <= done, "what was not synced may be gone"
    else:
        assert raw.end == done
    assert whole.startswith(log_of(again))
    raw.append(raw.end, whole[int(raw.end) :], again.now)
    again.flush()
    assert log_of(again) == whole
    assert again.store.dispatched_offset == len(whole)


@pytest.mark.parametrize("options", [SYNC, ASYNC], ids=["sync", "async"])
@pytest.mark.parametrize("end", ["clean", "killed", "power"])
@pytest.mark.parametrize("files", [1, 2])
def test_slave_restarts_where_its_log_ends_with_a_file(options: StoreOptions, end: str, files: int) -> None:
    """Its master sends the blank at the end of a file, and then nothing for a while."""
    whole = log_of(master(70))
    machine, raw = slave(options)
    raw.append(0, whole[: files * FILE], machine.now)
    machine.flush()
    assert raw.end == raw.settled == files * FILE
    if end == "clean":
        machine.store.close(machine.now)
    elif end == "killed":
        machine.files.process_crash()
    else:
        machine.files.power_cut(3)
    again, raw = slave(options, machine.files)
    if end != "power" or options is SYNC:
        assert raw.end == again.report.log_end == files * FILE
    raw.append(raw.end, whole[int(raw.end) :], again.now)
    again.flush()
    assert log_of(again) == whole
    assert again.store.dispatched_offset == len(whole)


@pytest.mark.parametrize("options", [SYNC, ASYNC], ids=["sync", "async"])
def test_slave_whose_log_ends_with_a_file_becomes_a_master(options: StoreOptions) -> None:
    machine, raw = slave(options)
    raw.append(0, log_of(master(70))[:FILE], machine.now)
    machine.flush()
    machine.store.close(machine.now)
    again = Machine(files=machine.files, options=options)
    again.turn(3)
    assert [int(one.at.physical_offset) // FILE for one in again.acknowledged] == [1, 1, 1]
    assert again.acknowledged[0].at.physical_offset == FILE
    again.restart()
    assert not again.report.truncated_bytes
    assert again.store.end_offset == again.acknowledged[-1].at.end_offset


def test_bytes_that_are_no_log_are_refused_with_their_offset_and_not_appended() -> None:
    whole = log_of(master(60))
    size = int.from_bytes(whole[:4])
    blank = FILE - len(whole[:FILE].rstrip(b"\0")) + 8
    spoilt = {
        "at offset 0 are not a record": (0, bytes(100)),
        f"at offset {size} are not a record": (0, whole[:size] + (1).to_bytes(4) + whole[size + 4 :]),
        f"at offset {size} has a different physical offset": (0, whole[:size] * 2),
        "are not a record: its log is damaged": (0, whole[:size] + (1 << 30).to_bytes(4) + whole[size + 4 :]),
        "set mappedFileSizeCommitLog": (FILE, whole[FILE - blank :]),
    }
    for text, (offset, data) in spoilt.items():
        machine, raw = slave()
        with pytest.raises(NotTheLog, match=text):
            raw.append(offset, data, machine.now)
        assert raw.end in (0, size)
        assert log_of(machine) == whole[: int(raw.end)]


def test_a_record_longer_than_ours_may_be_names_the_setting() -> None:
    of = Machine(options=ASYNC, shape=StoreShape(commit_log_segment_size=1 << 20))
    of.store.append(message(0, size=200_000), of.now)
    of.write()
    machine = Machine(options=StoreOptions(max_message_size=100_000), shape=StoreShape(commit_log_segment_size=1 << 20))
    with pytest.raises(NotTheLog, match="give this broker the maxMessageSize of its master, and start it again"):
        RawLog(machine.store).append(0, log_of(of)[:50], machine.now)


@pytest.mark.parametrize("seen", [8, 1000], ids=["its front", "whole records"])
def test_files_smaller_than_the_masters_are_named_at_the_record_that_crosses_their_end(seen: int) -> None:
    of = Machine(options=ASYNC, shape=StoreShape(commit_log_segment_size=4 * FILE))
    ends = [0]
    while ends[-1] <= FILE:
        of.turn()
        ends.append(int(of.store.written_offset))
    whole = log_of(of)
    machine, raw = slave()
    text = f"at offset {ends[-2]} has .* the file of this log ends {FILE - ends[-2]} bytes .*mappedFileSizeCommitLog"
    with pytest.raises(NotTheLog, match=text):
        raw.append(0, whole[: ends[-2] + seen], machine.now)
    assert raw.end == 0


def test_a_slave_becomes_a_master_whose_records_follow() -> None:
    of = master(70)
    machine, raw = slave(SYNC)
    whole = log_of(of)
    raw.append(0, whole[:-30], machine.now)
    machine.flush()
    machine.files.process_crash()
    again = Machine(files=machine.files, options=SYNC)
    first = again.store.end_offset
    sent = [again.append()[0] for _ in range(3)]
    again.write()
    again.flush()
    assert sent[0].at.physical_offset == first
    numbers = {queue: len(units) for queue, units in enumerate(units_of(of))}
    numbers[69 % 3] -= 1  # the last one had not arrived whole
    assert [int(one.at.queue_offset) for one in sent] == [numbers[queue] for queue in range(3)]


def test_a_master_sends_what_is_settled_and_no_more_than_one_file() -> None:
    machine = master(60, SYNC)
    raw = RawLog(machine.store)
    settled = int(raw.settled)
    machine.append(1)
    machine.write()
    assert raw.end > raw.settled == settled
    assert raw.read(settled, 100) == b""
    assert raw.read(settled - 10, 100) == log_of(machine)[settled - 10 : settled]
    assert raw.read(FILE - 10, 100) == log_of(machine)[FILE - 10 : FILE]
    assert raw.read(0, 5000) == log_of(machine)[:FILE]
    machine.flush()
    assert len(raw.read(settled, 1 << 20)) == raw.end - settled


def test_cold_read_returns_its_extent() -> None:
    machine = Machine(options=StoreOptions(flush_disk_type="ASYNC_FLUSH", tail_cache_bytes=0))
    for _ in range(60):
        machine.turn()
    raw = RawLog(machine.store)
    path = machine.store.log.segments.path_at(0)
    machine.files.cold.add(path)
    found = raw.read(100, 500)
    assert isinstance(found, Extent)
    assert (found.path, found.offset, found.size) == (path, 100, 500)
    machine.files.warm(found.path, int(found.offset), int(found.size))
    assert raw.read(100, 500) == log_of(machine)[100:600]


def test_a_full_disk_refuses_bytes_and_keeps_those_before() -> None:
    whole = log_of(master(60))
    machine, raw = slave()
    raw.append(0, whole[:FILE], machine.now)
    machine.files.fail_next("write_at", DiskFull("cannot write: the disk is full"))
    with pytest.raises(DiskFull):
        raw.append(FILE, whole[FILE:], machine.now)
    assert raw.end == FILE
    with pytest.raises(ServiceNotAvailable):
        raw.append(FILE, whole[FILE:], machine.now)
    machine.files.faults_over()
    machine.now += 3_600_000
    machine.store.tick(machine.now)
    raw.append(FILE, whole[FILE:], machine.now)
    machine.flush()
    assert log_of(machine) == whole


@pytest.mark.parametrize("flushed", [False, True])
def test_a_topic_that_the_master_deleted_and_made_again_begins_again_on_the_slave(flushed: bool) -> None:
    of = master(9)
    machine, raw = slave()
    copy(of, (machine, raw), random.Random(1))
    assert units_of(machine) == units_of(of)
    if flushed:
        machine.store.queues.flush()
    machine.store.queues.take_restarted()
    before = int(of.store.end_offset)
    of.store.delete_topic("T")
    for _ in range(6):
        of.turn()
    copy(of, (machine, raw), random.Random(2), before)
    assert units_of(machine) == units_of(of)
    assert [len(units) for units in units_of(machine)] == [2, 2, 2]
    assert machine.store.queues.take_restarted() == {"T"}
    assert machine.store.queues.take_restarted() == set()
    machine.crash()
    assert units_of(machine) == units_of(of), "recovery finds in the log what dispatch found"


@pytest.mark.parametrize("end", ["", "crash", "queues lost"])
def test_queues_that_do_not_begin_again_are_dropped_where_the_master_deleted_their_topic(end: str) -> None:
    of = master(9)
    machine, raw = slave()
    copy(of, (machine, raw), random.Random(1))
    before = int(of.store.end_offset)
    of.store.delete_topic("T")
    of.turn()  # in one queue of three
    copy(of, (machine, raw), random.Random(2), before)
    assert [len(units) for units in units_of(machine)] == [1, 3, 3]
    if end == "queues lost":
        machine.store.queues.deleted.add("T", before)  # the power goes before the queues do
    else:
        assert machine.store.queues.delete_older("T", before)
        assert units_of(machine) == units_of(of)
    if end:
        machine.crash()
    assert units_of(machine) == units_of(of)
    assert [len(units) for units in units_of(machine)] == [1, 0, 0]
    assert not machine.store.queues.delete_older("T", before)
    assert machine.store.query_messages("T", "K9", 32, 0, machine.now * 2).records
    assert not machine.store.query_messages("T", "K1", 32, 0, machine.now * 2).records


def test_a_deletion_that_cannot_be_marked_deletes_nothing() -> None:
    of = master(9)
    machine, raw = slave()
    copy(of, (machine, raw), random.Random(1))
    machine.files.fail_next("write_at", DiskFull("cannot write: the disk is full"))
    with pytest.raises(DiskFull):
        machine.store.queues.delete_older("T", int(of.store.end_offset))
    assert units_of(machine) == units_of(of)
    machine.files.faults_over()
    assert machine.store.queues.delete_older("T", int(of.store.end_offset))
    assert machine.store.queues.topics() == []


def damaged_log(of: Machine, number: int, byte: int = 88) -> tuple[bytes, int]:
    """The log with a bit flipped in a record, by default in its body, and where the record starts."""
    start = int(of.acknowledged[number].at.physical_offset)
    whole = bytearray(log_of(of))
    whole[start + byte] ^= 1
    return bytes(whole), start


@pytest.mark.parametrize("seed", range(6))
def test_slave_neither_appends_nor_reports_a_damaged_record(seed: int) -> None:
    draw, of = random.Random(seed), master()
    whole, start = damaged_log(of, draw.randrange(60))
    machine, raw = slave(draw.choice((SYNC, ASYNC)))
    for _ in range(2):  # it connects again, and gets the same bytes
        at = int(raw.end)
        with pytest.raises(RecordDamaged, match=rf"offset {start} of the log \(topic T, queue .*is not appended"):
            while at < len(whole):
                size = draw.choice((1, 3, 8, 100, 700, 5000, 20_000))
                raw.append(at, whole[at : at + size], machine.now)
                machine.flush()
                at += size
        machine.flush()
        assert int(raw.end) == int(raw.settled) == start
        raw.forget()
    assert machine.store.log.damaged == 2
    assert log_of(machine) == whole[:start]
    raw.append(start, log_of(of)[start:], machine.now)  # another master has the record intact
    machine.flush()
    assert log_of(machine) == log_of(of)


def sent_by(raw: RawLog, log: CommitLog, begin: int, most: int) -> bytes:
    """Read the log in pieces, as a master does for a slave."""
    spans, sent = CheckedSpans(log), b""
    while piece := raw.read(begin + len(sent), most, spans):
        assert not isinstance(piece, Extent)
        sent += piece
    return sent


@pytest.mark.parametrize("most", [1, 7, 50, 400, 3000, 1 << 20])
def test_master_sends_all_intact_records_from_its_disk(most: int) -> None:
    of = master(60 if most > 7 else 12)
    of.store.log.tail.clear()
    of.store.log.memory_from = of.store.log.written_offset
    whole = log_of(of)
    raw = RawLog(of.store)
    for begin in (0, int(of.acknowledged[5].at.physical_offset), int(of.acknowledged[5].at.physical_offset) + 30):
        assert sent_by(raw, of.store.log, begin, most) == whole[begin:]


@pytest.mark.parametrize("most", [1, 7, 50, 400, 3000, 1 << 20])
@pytest.mark.parametrize(("number", "byte"), [(0, 88), (5, 88), (11, 88), (5, 35), (5, 6)])
def test_master_does_not_send_a_damaged_record_from_its_disk(most: int, number: int, byte: int) -> None:
    of = master(12)
    whole, start = damaged_log(of, number, byte)
    of.store.log.tail.clear()
    path = of.store.log.segments.path_at(0)
    handle = of.files.open(path)
    of.files.write_at(handle, [whole[start : start + 120]], start)
    of.files.close(handle)
    raw = RawLog(of.store)
    of.store.log.memory_from = 0
    assert sent_by(raw, of.store.log, 0, most) == whole  # from the kernel's memory, where this process wrote it
    of.store.log.memory_from = of.store.log.written_offset
    spans, sent = CheckedSpans(of.store.log), b""
    for _ in range(2):
        with pytest.raises(RecordDamaged, match=rf"offset {start} of the log.* is not sent"):
            while True:
                piece = raw.read(len(sent), most, spans)
                assert piece
                assert not isinstance(piece, Extent)
                sent += piece
        assert sent == whole[:start]
