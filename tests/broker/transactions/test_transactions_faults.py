"""Transactions when writes fail or the power goes: each ends once, or is open."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.outcome import Parked
from bolide.broker.transactions.transactions import COMMIT, ROLLBACK
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.store.background.running_flags import DISK_FULL
from bolide.store.disk.files import DiskFull, FileFailed
from bolide.store.errors import ServiceNotAvailable
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import message, reply_of, send_request
from tests.broker.transaction_parts import (
    INTERVAL_MS,
    Transactions,
    commit_all_asked,
    delivered,
    disk,
    end_request,
    keys_in,
    on_a_simulated_disk,
)


@pytest.fixture
def parts() -> Iterator[Transactions]:
    with on_a_simulated_disk() as made:
        yield made


# -- failed writes


def test_a_full_disk_in_a_round_of_checks_ends_no_transaction_twice(parts: Transactions) -> None:
    names = [f"U{number}" for number in range(12)]
    for name in names:
        parts.half(UNIQ_KEY=name, KEYS="x" * 30_000)
    for _ in range(18):
        parts.answer(send_request("Other", b"x" * 32_000))  # so that a few copies fit into this file of the log
    for _ in range(3):
        disk(parts).fail_next("open", DiskFull("no space left"))
    parts.later(INTERVAL_MS)
    renewed = parts.store.max_queue_offset(HALF_TOPIC, 0) - len(names)
    assert 0 < renewed < len(names) and parts.store.flags.bits & DISK_FULL, "the disk was full in the middle"
    assert len(parts.ops()) == renewed
    disk(parts).faults_over()
    parts.store.flags.clear(DISK_FULL)
    commit_all_asked(parts)
    parts.later(2 * INTERVAL_MS)
    commit_all_asked(parts)
    assert delivered(parts) == Counter(names)
    parts.later(3 * INTERVAL_MS)
    assert parts.asked() == []


def test_a_round_that_was_not_written_leaves_everything_as_it_was(parts: Transactions) -> None:
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(3)]
    parts.later(INTERVAL_MS - 1)
    parts.now += 1
    disk(parts).fail_next("write_at")
    parts.service.tick(parts.now, 1000)
    with pytest.raises(FileFailed):
        parts.store.write_pending()
    disk(parts).faults_over()
    parts.half(UNIQ_KEY="B")
    parts.answer(send_request("Other"))
    parts.later(100)
    assert parts.asked() == [], "another half message has come to the place that the first question named"
    assert parts.code(halves[1], COMMIT) == 0  # not its copy: that is gone
    parts.later(INTERVAL_MS)
    assert [question.ext()["tranStateTableOffset"] for question in parts.asked()] == ["4", "5", "6"]
    assert delivered(parts) == Counter(["U1"])
    parts.code(halves[0], COMMIT)
    parts.code(halves[2], ROLLBACK)
    assert delivered(parts) == Counter(["U0", "U1"])


def test_a_repeat_is_answered_when_the_first_end_is_safe(parts: Transactions) -> None:
    half = parts.half()
    first = parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end_request(half, COMMIT), parts.now)
    again = parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end_request(half, COMMIT), parts.now)
    assert isinstance(first, Parked) and isinstance(again, Parked)
    assert again.offset == first.offset == parts.store.end_offset
    disk(parts).fail_next("write_at")
    with pytest.raises(FileFailed):
        parts.store.write_pending()
    assert parts.code(half, COMMIT) == 0 and delivered(parts) == Counter(["U"])


def fill_the_file_but_for(parts: Transactions, room: int) -> None:
    """Leave just so many bytes of this file of the log."""

    def filler(length: int) -> int:
        stored = parts.writer.put(message("Other", 0, bytes(length), "", parts.now), parts.now)
        parts.settle()
        return int(stored.size)

    overhead = filler(0)
    filler((1 << 20) - int(parts.store.written_offset) - overhead - room)
    assert (1 << 20) - parts.store.written_offset == room


@pytest.mark.parametrize("what", ["commit", "renewal", "giving up"])
def test_a_pair_that_does_not_fit_as_a_whole_is_not_begun(what: str) -> None:
    """The message alone would fit, and the disk has no room for the next file."""
    files = SimulatedFiles()
    files.make_dir("/store")
    parts = Transactions(Path("/store"), files, transaction_check_max=0 if what == "giving up" else 3)
    half = parts.half()
    fill_the_file_but_for(parts, 300 if what == "commit" else 400)
    end = parts.store.written_offset
    files.fail_next("open", DiskFull("no space left"))
    if what == "commit":
        with pytest.raises(ServiceNotAvailable):
            parts.end(half, COMMIT)
    else:
        parts.later(INTERVAL_MS)
    assert parts.store.flags.bits & DISK_FULL
    parts.settle()
    assert parts.store.written_offset == end and parts.asked() == []
    parts.store.flags.clear(DISK_FULL)
    files.faults_over()
    assert parts.code(half, COMMIT) == 0 and delivered(parts) == Counter(["U"])
    parts.close()


# -- loss of power


def lose_the_op_record(parts: Transactions, before: int = 0) -> None:
    """A power cut that keeps all but the last record of the log, an op record, and so many bytes before it."""
    last = parts.store.units(OP_HALF_TOPIC, 0, parts.store.max_queue_offset(OP_HALF_TOPIC, 0) - 1, 1)[0]
    assert last[0] + last[1] == parts.store.written_offset
    files = disk(parts)
    files.process_crash()
    handle = files.open("/store/commitlog/" + "0" * 20)
    files.write_at(handle, [bytes(before + last[1])], last[0] - before)
    files.close(handle)
    for topic in (HALF_TOPIC, OP_HALF_TOPIC):  # the table is no newer than the log
        parts.offsets.commit(TRANSACTION_GROUP, topic, 0, 0, parts.now)
    parts.reopen()
    end = parts.store.written_offset
    lacks_sector = before >= last[0] % 512  # then all of the record that lies in its last sector is zeros
    assert end < last[0] if before > 0 and lacks_sector else end == last[0]


@pytest.mark.parametrize("delay", ["", "3"])
def test_a_commit_whose_op_record_was_torn_away_counts(parts: Transactions, delay: str) -> None:
    others = parts.half(UNIQ_KEY="V")
    half = parts.half(DELAY=delay) if delay else parts.half()
    parts.code(half, COMMIT)
    lose_the_op_record(parts)
    assert parts.code(half, ROLLBACK) == 0
    parts.later(3_000)
    assert parts.ops() == [b"1,"]
    parts.later(INTERVAL_MS)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["V"]
    assert parts.code(others, COMMIT) == 0
    assert len(parts.records("T", 2)) + len(parts.records("SCHEDULE_TOPIC_XXXX", 2)) == 2
    parts.later(2_000)
    assert parts.progress() == (3, 3)


def test_an_op_record_that_is_owed_comes_before_all_that_is_stored_after_the_start(parts: Transactions) -> None:
    """A second loss of power keeps it, or keeps nothing after the record that it belongs to."""
    half = parts.half()
    parts.code(half, COMMIT)
    lose_the_op_record(parts)
    end = parts.store.written_offset
    parts.answer(send_request("Other"))
    assert parts.ops() == [b"0,"]
    assert parts.store.units(OP_HALF_TOPIC, 0, 0, 1)[0][0] == end
    assert parts.code(half, ROLLBACK) == 0 and delivered(parts) == Counter(["U"])


def test_an_op_record_that_is_owed_is_written_although_a_write_fails(parts: Transactions) -> None:
    parts.code(parts.half(), COMMIT)
    lose_the_op_record(parts)
    disk(parts).fail_next("write_at")
    parts.service.tick(parts.now, 1000)
    with pytest.raises(FileFailed):
        parts.store.write_pending()
    parts.later(3_000)
    assert parts.ops() == [b"0,"] and parts.progress() == (1, 1)


@pytest.mark.parametrize("kept", [1, 40, 160])
def test_a_renewed_half_message_torn_in_the_middle_is_none(parts: Transactions, kept: int) -> None:
    half = parts.half()
    parts.later(INTERVAL_MS)
    parts.asked()
    (at, size, _) = parts.store.units(HALF_TOPIC, 0, 1, 1)[0]
    record = parts.store.record_at(at, size)
    assert record is not None
    lose_the_op_record(parts, len(record.properties) - kept)
    parts.later(3 * INTERVAL_MS)
    commit_all_asked(parts)
    assert parts.code(half, COMMIT) == 0 and delivered(parts) == Counter(["U"])
    parts.later(INTERVAL_MS)
    assert parts.store.max_queue_offset(TRANS_CHECK_MAX_TIME_TOPIC, 0) == 0
    assert parts.progress()[0] == parts.store.max_queue_offset(HALF_TOPIC, 0)


def test_who_is_asked_could_answer_after_a_loss_of_power(parts: Transactions) -> None:
    parts.half()
    parts.flushes = False
    parts.later(INTERVAL_MS + 100)
    assert parts.store.max_queue_offset(HALF_TOPIC, 0) == 2 and parts.asked() == []
    parts.store.log.sync_all()
    parts.later(100)
    assert len(parts.asked()) == 1


def test_nobody_is_asked_about_what_ended_meanwhile(parts: Transactions) -> None:
    half = parts.half()
    parts.flushes = False
    parts.later(INTERVAL_MS + 100)
    parts.flushes = True
    assert parts.code(half, COMMIT) == 0
    parts.later(1_000)
    assert parts.asked() == []


def test_a_renewed_half_message_whose_op_record_was_torn_away_is_one(parts: Transactions) -> None:
    half = parts.half()
    parts.later(INTERVAL_MS)
    lose_the_op_record(parts)
    parts.asked()
    parts.later(INTERVAL_MS)
    commit_all_asked(parts)
    parts.later(3 * INTERVAL_MS)
    commit_all_asked(parts)
    assert parts.code(half, COMMIT) == 0
    assert delivered(parts) == Counter(["U"])


def test_what_was_given_up_is_not_given_up_twice() -> None:
    files = SimulatedFiles()
    files.make_dir("/store")
    parts = Transactions(Path("/store"), files, transaction_check_max=1)
    parts.half()
    parts.later(2 * INTERVAL_MS)
    assert len(parts.records(TRANS_CHECK_MAX_TIME_TOPIC)) == 1
    lose_the_op_record(parts)
    parts.later(5 * INTERVAL_MS)
    assert len(parts.records(TRANS_CHECK_MAX_TIME_TOPIC)) == 1
    parts.close()


# -- everything at once


@pytest.mark.parametrize("seed", range(2, 42))
def test_what_was_answered_survives_a_power_cut_and_ends_once(seed: int) -> None:
    chance = random.Random(seed)
    files = SimulatedFiles()
    files.make_dir("/store")
    files.sync_dir("/")
    parts = Transactions(Path("/store"), files, transaction_check_max=3)
    table = parts.offsets.encode()
    halves: dict[str, tuple[Command, int]] = {}
    ended: dict[str, tuple[int, int]] = {}
    for number in range(60):
        name = f"U{number}"
        what = chance.random()
        parts.flushes = chance.random() < 0.2
        if what < 0.4:
            halves[name] = (parts.half(UNIQ_KEY=name), int(parts.store.written_offset))
        elif what < 0.7 and halves:
            key = chance.choice(list(halves))
            how = chance.choice([COMMIT, ROLLBACK])
            outcome = parts.service.handlers()[codes.END_TRANSACTION](
                parts.channel, end_request(halves[key][0], how), parts.now
            )
            if (
                isinstance(outcome, Parked) and reply_of(outcome).remark is None
            ):  # else it was given up, or ended before
                ended[key] = (how, outcome.offset)
        elif what < 0.8:
            parts.later(chance.choice([1_000, INTERVAL_MS]))
            parts.asked()
        else:
            parts.settle()
            parts.service.tick(parts.now, 1000)
            table = parts.offsets.encode()  # what the file holds says no more than the log keeps
    parts.settle()
    safe = int(parts.store.flushed_offset)
    files.power_cut(seed)
    parts.offsets.load(table)
    parts.reopen()
    parts.flushes = True
    before = delivered(parts)
    assert all(count == 1 for count in before.values())
    for name, (how, end) in ended.items():
        if end <= safe:
            assert before[name] == (how == COMMIT), name
    for _ in range(5):
        parts.later(INTERVAL_MS)
        commit_all_asked(parts)
    after = delivered(parts)
    assert all(count == 1 for count in after.values()), after
    given_up = keys_in(parts, TRANS_CHECK_MAX_TIME_TOPIC)
    assert all(count == 1 for count in given_up.values()) and not given_up.keys() & after.keys()
    for name, (_, stored) in halves.items():
        if stored <= safe and name not in ended and name not in given_up:
            assert after[name] == 1, f"{name} is lost"
        if name in ended and ended[name][1] <= safe:
            assert after[name] == before[name], f"{name} had ended"
    parts.close()


@pytest.mark.parametrize("seed", range(20))
def test_writes_that_fail_now_and_then_lose_and_double_nothing(seed: int, parts: Transactions) -> None:
    chance = random.Random(seed)
    halves: dict[str, Command] = {}
    ended: dict[str, int] = {}
    for number in range(80):
        name = f"U{number}"
        what = chance.random()
        if what < 0.95 and chance.random() < 0.3:
            disk(parts).fail_next("write_at")
        try:
            if what < 0.4:
                halves[name] = parts.half(UNIQ_KEY=name)
            elif what < 0.8 and halves:
                key = chance.choice(list(halves))
                how = chance.choice([COMMIT, ROLLBACK])
                answer = parts.end(halves[key], how)
                if answer is not None and answer.remark is None:
                    assert key not in ended, "an end counts once"
                    ended[key] = how
            elif what < 0.95:
                parts.later(chance.choice([1_000, INTERVAL_MS]))
            else:
                parts.restart()
        except FileFailed:
            pass
        disk(parts).faults_over()
        parts.asked()
    for _ in range(3):
        parts.later(INTERVAL_MS)
        commit_all_asked(parts)
    parts.later(2_000)
    expected = {name for name in halves if ended.get(name, COMMIT) == COMMIT}
    assert delivered(parts) == Counter(expected)
    assert parts.progress()[0] == parts.store.max_queue_offset(HALF_TOPIC, 0)
