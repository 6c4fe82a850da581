"""The table of undecided half messages: progress, restarts, failed writes, stores that Java left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.effects import Effects
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.transactions.half_messages import HalfMessages, half_offsets
from bolide.broker.transactions.named_offsets import MAX_OPS
from bolide.broker.transactions.transactions import COMMIT, ROLLBACK
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from bolide.layout.properties import text_of
from bolide.layout.record import Record
from bolide.remoting import codes
from bolide.store.disk.files import FileFailed, RealFiles
from bolide.store.message_store import MessageStore
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import BODY, NOW, again, message, send_request, text
from tests.broker.transaction_parts import INTERVAL_MS, Transactions, end_request, from_check
from tests.golden.stores import golden_store


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Transactions]:
    made = Transactions(tmp_path)
    yield made
    made.close()


def test_progress_is_what_nobody_needs_any_more(parts: Transactions) -> None:
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(4)]
    parts.code(halves[1], COMMIT)
    parts.code(halves[3], ROLLBACK)
    parts.later(2_000)
    assert parts.progress() == (0, 0)
    parts.code(halves[0], COMMIT)
    parts.later(2_000)
    assert parts.progress() == (2, 1)  # 2 is open; op 0 named 1, op 1 names 3
    parts.code(halves[2], COMMIT)
    parts.later(2_000)
    assert parts.progress() == (4, 4)


def test_what_expired_unread_does_not_move_the_others(parts: Transactions) -> None:
    halves = parts.service.halves
    parts.half(UNIQ_KEY="U0")
    halves.scan(100)
    for number in (1, 2):
        parts.half(UNIQ_KEY=f"U{number}")
    queue = parts.store.queues.get(HALF_TOPIC, 0)
    assert queue is not None
    queue.min_offset = 2  # the machine slept so long that retention came before the scan
    halves.scan(100)
    unit = queue.unit(2)
    assert unit is not None
    assert list(halves.pending) == [0, 2] and halves.pending[2].physical_offset == unit[0]


def test_a_restart_rebuilds_the_table(parts: Transactions) -> None:
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(5)]
    parts.code(halves[0], COMMIT)
    parts.code(halves[3], ROLLBACK)
    parts.later(2_000)
    stored = parts.offsets.encode()
    parts.code(halves[2], COMMIT)
    parts.offsets = ConsumerOffsets(parts.effects)
    parts.offsets.load(stored)
    parts.start_service()
    parts.later(INTERVAL_MS)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U1", "U4"]


def test_damaged_op_record_ends_no_half_message(parts: Transactions) -> None:
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(3)]
    parts.code(halves[0], COMMIT)
    parts.damage(OP_HALF_TOPIC, 0)  # it names half message 1 now
    parts.start_service()
    parts.later(INTERVAL_MS)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U0", "U1", "U2"]
    assert "does not match its CRC" in parts.store.maintenance.take_problem()


@pytest.mark.parametrize("at", [0, BODY])
def test_damaged_half_message_stays_open(parts: Transactions, at: int) -> None:
    for number in range(2):
        parts.half(UNIQ_KEY=f"U{number}")
    parts.damage(HALF_TOPIC, 0, at=at)
    parts.start_service()
    parts.later(INTERVAL_MS)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U1"]
    assert 0 in parts.service.halves.pending
    parts.damage(HALF_TOPIC, 0, at=at)  # the same bit again: the record is whole
    parts.later(INTERVAL_MS)
    assert "U0" in [question.ext()["msgId"] for question in parts.asked()]


def test_a_decision_that_was_not_written_is_open_again() -> None:
    files = SimulatedFiles()
    files.make_dir("/store")
    parts = Transactions(Path("/store"), files)
    half = parts.half()
    parts.later(2_000)
    written = parts.store.written_offset
    files.fail_next("write_at")
    parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end_request(half, COMMIT), parts.now)
    with pytest.raises(FileFailed):
        parts.store.write_pending()
    files.faults_over()
    assert parts.store.written_offset == written
    parts.later(2_000)
    assert parts.progress() == (0, 0)  # not passed while it could still appear
    while parts.store.written_offset < written + 1000:
        parts.answer(send_request("Other"))
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert parts.code(half, COMMIT, **from_check(question)) == 0
    assert len(parts.records("T", 2)) == 1
    parts.close()


def test_progress_waits_for_the_op_record_to_be_safe(parts: Transactions) -> None:
    half = parts.half()
    parts.later(1_000)
    parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end_request(half, COMMIT), parts.now)
    parts.service.tick(parts.now + 1_000, 1000)  # nothing was written yet
    assert parts.progress() == (0, 0)
    parts.settle()
    parts.service.tick(parts.now + 2_000, 1000)
    assert parts.progress() == (1, 1)


@pytest.mark.parametrize("name", ["4.9.7-killed", "5.5.0-killed", "5.5.0-clean"])
def test_the_table_of_a_java_store(name: str, tmp_path: Path) -> None:
    """What Java left undecided is what no op record of the manifest names."""
    golden = golden_store(name)
    shutil.copytree(golden.root, tmp_path / "store")
    store = MessageStore(RealFiles(), str(tmp_path / "store"), golden.shape)
    store.load(NOW)
    store.dispatch(1_000_000, NOW)
    offsets = ConsumerOffsets(Effects())
    offsets.load((tmp_path / "store/config/consumerOffset.json").read_bytes())
    halves = HalfMessages(store, offsets)
    begin = max(offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0), 0)
    assert name.endswith("killed") or any(
        key.endswith(f"@{TRANSACTION_GROUP}") for key in json.loads(offsets.encode())["offsetTable"]
    ), "Java's own name"
    assert halves.scan(1_000_000)
    stored = [entry for entry in golden.log() if entry["topic"] == HALF_TOPIC]
    ended = {record.prepared_transaction_offset for record in records_of(store, "golden_trans")}
    named = {offset for op in records_of(store, OP_HALF_TOPIC) for offset in half_offsets(op.body)}
    assert stored and ended
    for entry in stored:
        if entry["queueOffset"] >= begin:
            assert halves.is_decided(entry["queueOffset"]) == (entry["queueOffset"] in named), entry
        assert entry["physicalOffset"] not in ended or halves.is_decided(entry["queueOffset"]), entry
    store.close(NOW)


def records_of(store: MessageStore, topic: str) -> list[Record]:
    found = [unit for queue_id in store.queue_ids(topic) for unit in store.units(topic, queue_id, 0, 10_000)]
    return [record for at, size, _ in found if (record := store.record_at(at, size)) is not None]


@pytest.mark.parametrize(("half", "op"), [(1_000_000, 1), (4, 7), (5, 1)])
def test_a_table_ahead_of_the_log_is_not_believed(parts: Transactions, half: int, op: int) -> None:
    """Another broker's power cut, a log from a backup, or somebody set it: the log alone says what is decided."""
    halves = [parts.half(UNIQ_KEY=f"U{number}") for number in range(4)]
    parts.code(halves[1], COMMIT)
    parts.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, half, NOW)
    parts.offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, op, NOW)
    parts.start_service()
    assert [parts.code(half, COMMIT) for half in halves] == [0, 0, 0, 0]
    assert len(parts.records("T", 2)) == 4
    parts.later(2_000)
    assert parts.progress() == (4, 4)


def test_a_table_ahead_of_the_log_is_forgotten_before_anything_is_stored(parts: Transactions) -> None:
    """At the next start, with longer queues, it would look right, and pass over what decides a transaction."""
    parts.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 0, NOW)
    parts.offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, 1, NOW)
    parts.start_service()
    assert parts.service.halves.cut(NOW)
    half = parts.half()
    parts.code(half, COMMIT)
    parts.start_service()
    assert not parts.service.halves.cut(NOW)
    assert parts.code(half, COMMIT) == 0 and len(parts.records("T", 2)) == 1


def test_a_half_table_begins_at_the_beginning(parts: Transactions) -> None:
    """Op records that are passed over decide nothing: what they had ended would end again."""
    half = parts.half()
    parts.code(half, COMMIT)
    parts.offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, 1, NOW)
    parts.start_service()
    assert parts.code(half, COMMIT) == 0 and len(parts.records("T", 2)) == 1


def test_a_renewal_that_java_named_in_no_op_record_is_found(parts: Transactions) -> None:
    half = parts.half()
    (record,) = parts.records(HALF_TOPIC)
    renewed = text_of(record.properties) + "TRANSACTION_CHECK_TIMES\x011\x02"
    parts.writer.put(again(record, HALF_TOPIC, 0, renewed), parts.now)
    parts.answer(send_request("Other"))  # so that nothing was torn
    parts.settle()
    parts.offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, 3, NOW)
    parts.start_service()
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert parts.code(half, COMMIT, **from_check(question)) == 0 and len(parts.records("T", 2)) == 1


def test_progress_follows_what_survives_a_power_cut(parts: Transactions) -> None:
    half = parts.half()
    parts.later(1_000)
    parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end_request(half, COMMIT), parts.now)
    parts.flushes = False
    parts.settle()
    for after in (1_000, 2_000):
        parts.service.tick(parts.now + after, 1000)
        assert parts.progress() == (0, 0)
    parts.store.log.sync_all()
    parts.service.tick(parts.now + 3_000, 1000)
    assert parts.progress() == (1, 1)


def test_an_op_record_means_only_what_lies_before_it(parts: Transactions) -> None:
    parts.half()
    body = b"0,1," + b"9" * 5000 + b",x,"
    parts.writer.put(message(OP_HALF_TOPIC, 0, body, text(TAGS="d")), NOW)
    parts.settle()
    half = parts.half(UNIQ_KEY="V")
    parts.start_service()
    parts.service.begin(parts.now)
    assert parts.code(half, COMMIT) == 0 and len(parts.records("T", 2)) == 1
    parts.later(2_000)
    assert parts.progress() == (2, 2)


@pytest.mark.parametrize("restart", [False, True])
def test_the_first_record_ends_what_was_renewed_several_times(parts: Transactions, restart: bool) -> None:
    half = parts.half()
    other = parts.half(UNIQ_KEY="V")
    parts.later(3 * INTERVAL_MS)
    assert parts.store.max_queue_offset(HALF_TOPIC, 0) == 8
    if restart:
        parts.restart()
    assert parts.code(half, COMMIT) == 0 and parts.code(half, COMMIT) == 0
    assert len(parts.records("T", 2)) == 1
    assert parts.code(other, ROLLBACK) == 0
    parts.later(2 * INTERVAL_MS)
    assert parts.progress() == (8, 8)
    assert parts.code(half, COMMIT) == 0 and len(parts.records("T", 2)) == 1


def test_one_that_stays_open_holds_nothing_else_in_memory(parts: Transactions) -> None:
    """A half message may be left alone for days (CHECK_IMMUNITY_TIME_IN_SECONDS), and thousands end meanwhile."""
    assert parts.code(parts.half(UNIQ_KEY="A"), ROLLBACK) == 0
    parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="259200")
    ended = [parts.half(UNIQ_KEY=f"U{number}") for number in range(3)]
    parts.later(2 * INTERVAL_MS)
    for half in ended:
        assert parts.code(half, ROLLBACK) == 0
    last = parts.store.max_queue_offset(HALF_TOPIC, 0) - 1
    for number in range(MAX_OPS + 10):
        body = b"%d," % (last if number % 2 else 0)
        parts.writer.put(message(OP_HALF_TOPIC, 0, body, text(TAGS="d")), NOW)
        if number % 500 == 0:
            parts.settle()
    parts.settle()
    for _ in range(10):
        parts.store.dispatch(1_000, parts.now)
    parts.later(5_000)
    halves = parts.service.halves
    assert list(halves.pending) == [1] and halves.remembered <= MAX_OPS
    done, done_ops = parts.progress()
    assert done == 1 and done_ops <= 1
    parts.restart()
    parts.later(2_000)
    assert list(parts.service.halves.pending) == [1]


def test_merged_op_records_are_passed_over_when_all_are_done(parts: Transactions) -> None:
    first, second = parts.half(), parts.half(UNIQ_KEY="V")
    parts.later(1_000)
    for number in range(MAX_OPS + 10):
        body = b"1," if number else b"0,"
        parts.writer.put(message(OP_HALF_TOPIC, 0, body, text(TAGS="d")), NOW)
    third = parts.half(UNIQ_KEY="W")
    for _ in range(10):
        parts.store.dispatch(1_000, parts.now)
    parts.settle()
    parts.later(5_000)
    assert parts.progress()[0] == 2 and parts.progress()[1] >= MAX_OPS
    for half in (first, second, third):
        assert parts.code(half, COMMIT) == 0
    assert len(parts.records("T", 2)) == 1


def test_the_records_of_what_has_ended_are_forgotten(parts: Transactions) -> None:
    parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="259200")
    half = parts.half(UNIQ_KEY="U1")
    parts.later(3 * INTERVAL_MS)
    assert parts.code(half, ROLLBACK) == 0
    parts.later(2_000)
    assert parts.service.halves.remembered == len(parts.ops()) == 4


def test_merged_op_records_stay_while_one_of_them_is_needed(parts: Transactions) -> None:
    parts.half(UNIQ_KEY="A")
    parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="259200")
    parts.half(UNIQ_KEY="C")
    for number in range(MAX_OPS + 10):
        body = b"2," if number % 2 else b"0,"
        parts.writer.put(message(OP_HALF_TOPIC, 0, body, text(TAGS="d")), NOW)
    parts.settle()
    for _ in range(10):
        parts.store.dispatch(1_000, parts.now)
    parts.later(5_000)
    done, done_ops = parts.progress()
    assert done == 1 and done_ops <= 1
