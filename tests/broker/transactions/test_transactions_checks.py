"""The check loop: who is asked and when, what the question says, counters, immunity, giving up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.outcome import Cold
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.transactions.op_records import OPS_AT_ONCE
from bolide.broker.transactions.transactions import COMMIT
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.record import decode_record
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.broker.parts import properties_of, reply_of
from tests.broker.transaction_parts import IMMUNE_MS, INTERVAL_MS, Transactions, answer_of, end_request, from_check
from tests.store.parts import ColdFiles


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Transactions]:
    made = Transactions(tmp_path)
    yield made
    made.close()


def test_who_did_not_end_is_asked(parts: Transactions) -> None:
    parts.half()
    parts.later(INTERVAL_MS - 1)
    assert parts.asked() == []
    parts.later(1)
    (question,) = parts.asked()
    first, renewed = parts.records(HALF_TOPIC)
    assert question.code == codes.CHECK_TRANSACTION_STATE and question.is_oneway
    ext = question.ext()
    assert (ext["tranStateTableOffset"], ext["commitLogOffset"]) == ("1", str(renewed.physical_offset))
    assert (ext["msgId"], ext["transactionId"], ext["topic"]) == ("U", "U", HALF_TOPIC)
    assert decode_offset_message_id(ext["offsetMsgId"])[2] == renewed.physical_offset
    shown = decode_record(question.body, 0)
    assert (shown.topic, shown.queue_id, shown.body) == ("T", 2, b"hello")
    assert (shown.queue_offset, shown.physical_offset) == (1, renewed.physical_offset)
    assert properties_of(shown) == properties_of(renewed)
    assert properties_of(renewed)["TRANSACTION_CHECK_TIMES"] == "1"
    assert renewed.born_timestamp == first.born_timestamp
    assert parts.ops() == [b"0,"]  # the old record is done with
    assert parts.code(answer_of(question), COMMIT, **from_check(question)) == 0
    assert len(parts.records("T", 2)) == 1
    parts.later(10 * INTERVAL_MS)
    assert parts.asked() == []


def test_a_late_end_of_the_record_before_its_renewal_counts_once(parts: Transactions) -> None:
    half = parts.half()
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert parts.code(half, COMMIT) == 0
    assert len(parts.records("T", 2)) == 1
    assert parts.code(half, COMMIT, **from_check(question)) == 0
    assert len(parts.records("T", 2)) == 1
    assert parts.ops() == [b"0,", b"1,"]
    parts.later(10 * INTERVAL_MS)
    assert parts.asked() == [] and parts.progress() == (2, 2)


def test_nobody_is_asked_within_the_immunity(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, transaction_check_interval=1_000)
    parts.half()
    parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="20", UNIQ_KEY="V")
    parts.later(IMMUNE_MS)
    assert parts.asked() == []
    parts.later(1_001)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U"]
    parts.later(12_999)  # 20 s and not a moment more
    assert {question.ext()["msgId"] for question in parts.asked()} == {"U"}
    parts.later(1_000)
    assert {question.ext()["msgId"] for question in parts.asked()} == {"U", "V"}
    parts.close()


def test_it_gives_up_after_so_many_checks(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, transaction_check_max=3)
    parts.half()
    parts.later(10 * INTERVAL_MS)
    assert [properties_of(decode_record(q.body, 0))["TRANSACTION_CHECK_TIMES"] for q in parts.asked()] == [
        "1",
        "2",
        "3",
    ]
    (lost,) = parts.records(TRANS_CHECK_MAX_TIME_TOPIC)
    assert (lost.body, lost.queue_id) == (b"hello", 0)
    assert properties_of(lost)["REAL_TOPIC"] == "T"
    assert parts.topics.get(TRANS_CHECK_MAX_TIME_TOPIC) is not None
    assert parts.progress() == (4, 4)
    parts.close()


def test_it_gives_up_what_is_older_than_the_log_is_kept(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, file_reserved_time=1, transaction_check_interval=3_600_001)
    parts.half()
    parts.later(3_600_001)
    assert parts.asked() == [] and len(parts.records(TRANS_CHECK_MAX_TIME_TOPIC)) == 1
    parts.close()


def test_checks_follow_the_settings_of_now(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, transaction_check_interval=3_600_001)
    parts.half()
    parts.service.configure(BrokerOptions.of(file_reserved_time=1, transaction_check_interval=3_600_001))
    parts.later(3_600_001)
    assert parts.asked() == [] and len(parts.records(TRANS_CHECK_MAX_TIME_TOPIC)) == 1
    parts.close()


def test_without_a_producer_the_round_counts_all_the_same(parts: Transactions) -> None:
    parts.clients.unregister_producer("pg", parts.producer)
    parts.half()
    parts.later(INTERVAL_MS)
    assert parts.asked() == []
    assert properties_of(parts.records(HALF_TOPIC)[1])["TRANSACTION_CHECK_TIMES"] == "1"


def test_a_round_of_many_is_done_in_parts(parts: Transactions) -> None:
    for number in range(25):
        parts.half(UNIQ_KEY=f"U{number}", CHECK_IMMUNITY_TIME_IN_SECONDS="3600" if number < 15 else "1")
    parts.now += INTERVAL_MS
    rounds = 0
    while (due := parts.service.due(parts.now)) is not None and due <= parts.now:
        parts.service.tick(parts.now, 10)
        parts.settle()
        rounds += 1
    # Those that are not checked yet do not keep the round from later ones.
    assert [question.ext()["msgId"] for question in parts.asked()] == [f"U{number}" for number in range(15, 25)]
    assert 3 <= rounds < 20


def test_each_that_is_given_up_lies_beside_the_op_record_that_names_it(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, transaction_check_max=1, transaction_check_interval=10_000)
    count = OPS_AT_ONCE + 5
    for number in range(count):
        parts.half(UNIQ_KEY=f"U{number}")
    parts.later(21_000)
    given_up = parts.store.units(TRANS_CHECK_MAX_TIME_TOPIC, 0, 0, 1000)
    ops = parts.store.units(OP_HALF_TOPIC, 0, 0, 1000)
    assert len(given_up) == count and len(ops) == 2 * count  # one when it was stored again, one when given up
    assert [at + size for at, size, _ in given_up] == [at for at, _, _ in ops[count:]]
    assert parts.progress()[0] == 2 * count
    parts.close()


def test_an_op_record_of_a_4_9_store_is_one_number(tmp_path: Path) -> None:
    """4.9 reads no more: it would ask about what was decided, and store it twice."""
    parts = Transactions(tmp_path, store_version="4.9", transaction_check_max=1, transaction_check_interval=10_000)
    for number in range(3):
        parts.half(UNIQ_KEY=f"U{number}")
    parts.later(21_000)  # each is checked once, stored again, and given up
    assert parts.ops() == [b"%d" % number for number in range(6)]
    assert parts.progress()[0] == 6
    parts.close()


def test_what_was_given_up_can_be_taken_up_again(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, transaction_check_max=1)
    parts.half()
    parts.later(3 * INTERVAL_MS)
    assert len(parts.asked()) == 1
    (lost,) = parts.records(TRANS_CHECK_MAX_TIME_TOPIC)

    def resume(physical_offset: int) -> int:
        fields = {"msgId": parts.writer.message_id(physical_offset)}
        command = make_request(codes.RESUME_CHECK_HALF_MESSAGE, 1, fields)
        answer = reply_of(parts.service.handlers()[codes.RESUME_CHECK_HALF_MESSAGE](parts.channel, command, parts.now))
        parts.settle()
        return answer.code

    assert resume(lost.physical_offset) == 0
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert parts.code(answer_of(question), COMMIT, **from_check(question)) == 0
    (message,) = parts.records("T", 2)
    assert resume(message.physical_offset) == codes.SYSTEM_ERROR
    assert resume(1 << 40) == codes.SYSTEM_ERROR
    parts.close()


def test_a_record_on_a_slow_disk_is_loaded_before_it_is_asked_about(tmp_path: Path) -> None:
    files = ColdFiles()
    parts = Transactions(tmp_path, files)
    half = parts.half()
    parts.later(INTERVAL_MS - 1)
    files.cold = True
    parts.now += 1
    parts.service.tick(parts.now, 1000)
    assert parts.asked() == [] and parts.service.due(parts.now) is None
    ((extents, then),) = parts.effects.take().loads
    for extent in extents:
        files.warm(extent.path, extent.offset, extent.size)
    then(parts.now)
    parts.later(100)
    assert len(parts.asked()) == 1
    files.warmed.clear()
    outcome = parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end_request(half, COMMIT), parts.now)
    rounds = 0
    while isinstance(outcome, Cold):
        rounds += 1
        for extent in outcome.extents:
            files.warm(extent.path, extent.offset, extent.size)
        outcome = outcome.again(parts.now)
    assert (rounds > 0, reply_of(outcome).code) == (True, 0)
    files.cold = False
    parts.settle()
    assert len(parts.records("T", 2)) == 1
    parts.close()


def test_a_record_that_leaves_memory_at_once_is_waited_for(tmp_path: Path) -> None:
    files = ColdFiles()
    parts = Transactions(tmp_path, files)
    parts.half()
    parts.later(INTERVAL_MS - 1)
    files.cold = True
    parts.now += 1
    parts.service.tick(parts.now, 1000)
    ((_, then),) = parts.effects.take().loads
    then(parts.now)  # it was loaded, and is gone again
    parts.later(100)
    assert len(parts.asked()) == 1
    files.cold = False
    parts.close()
