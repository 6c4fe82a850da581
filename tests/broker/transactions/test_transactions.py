"""END_TRANSACTION: every check of it, what a commit and a rollback store, and what a repeat does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.options.composed import BrokerOptions
from bolide.broker.transactions.transactions import COMMIT, ROLLBACK
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, SCHEDULE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.node.loop.services import TOO_FEW, Services
from bolide.remoting import codes
from bolide.remoting.command import make_request
from tests.broker.parts import PEER, properties_of, reply_of, send_request, text
from tests.broker.transaction_parts import INTERVAL_MS, Transactions, from_check


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Transactions]:
    made = Transactions(tmp_path)
    yield made
    made.close()


def test_a_half_message_is_kept_from_its_topic(parts: Transactions) -> None:
    answer = parts.half()
    assert (answer.ext()["queueId"], answer.ext()["queueOffset"], answer.ext()["transactionId"]) == ("2", "0", "U")
    assert parts.records("T", 2) == []
    (half,) = parts.records(HALF_TOPIC)
    assert half.sys_flag == 0
    properties = properties_of(half)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"], properties["__transactionId__"]) == ("T", "2", "U")
    assert (properties["TRAN_MSG"], properties["PGROUP"]) == ("true", "pg")


def test_commit_stores_the_message_and_one_op_record(parts: Transactions) -> None:
    parts.answer(send_request())  # so that the half message is not the first byte of the log
    half = parts.half()
    assert parts.code(half, COMMIT) == 0
    (message,) = parts.records("T", 2)
    (stored,) = parts.records(HALF_TOPIC)
    assert stored.physical_offset > 0
    assert (message.body, message.sys_flag, message.flag) == (b"hello", 8, stored.flag)
    assert message.prepared_transaction_offset == stored.physical_offset
    assert (message.born_timestamp, message.born_host) == (stored.born_timestamp, PEER)
    kept = properties_of(message)
    assert "REAL_TOPIC" not in kept and "REAL_QID" not in kept
    assert (kept["TRAN_MSG"], kept["PGROUP"], kept["UNIQ_KEY"]) == ("true", "pg", "U")
    assert parts.ops() == [b"0,"]
    (op,) = parts.records(OP_HALF_TOPIC)
    assert properties_of(op) == {"TAGS": "d", "WAIT": "true"}


def test_rollback_writes_the_op_record_only(parts: Transactions) -> None:
    half = parts.half()
    assert parts.code(half, ROLLBACK) == 0
    assert parts.records("T", 2) == [] and parts.ops() == [b"0,"]
    parts.later(200_000)
    assert parts.asked() == []


def test_unknown_changes_nothing_and_gets_no_answer(parts: Transactions) -> None:
    assert parts.end(parts.half(), 0) is None
    assert parts.ops() == [] and parts.records("T", 2) == []


@pytest.mark.parametrize("how", [4, 99, -1])
def test_what_is_no_decision_is_refused(parts: Transactions, how: int) -> None:
    answer = parts.end(parts.half(), how)
    assert answer is not None
    assert (answer.code, answer.remark) == (codes.SYSTEM_ERROR, "commitOrRollback field wrong")
    assert parts.ops() == [] and parts.records("T", 2) == []


@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("between", ["nothing", "a look", "a restart"])
def test_a_repeat_has_no_second_effect(parts: Transactions, first: int, second: int, between: str) -> None:
    half = parts.half()
    assert parts.code(half, first) == 0
    if between == "a look":
        parts.later(5_000)
    elif between == "a restart":
        parts.start_service()
    assert parts.code(half, second) == 0
    assert len(parts.records("T", 2)) == (1 if first == COMMIT else 0)
    assert parts.ops() == [b"0,"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"producerGroup": "other"}, "producer group"),
        ({"tranStateTableOffset": "1"}, "state table offset"),
        ({"commitLogOffset": "99999999"}, "Find prepared"),
        ({"commitLogOffset": "-1"}, "Find prepared"),
        ({"commitLogOffset": "1"}, "Find prepared"),
    ],
)
def test_an_end_that_names_no_half_message_is_refused(parts: Transactions, fields: dict[str, str], says: str) -> None:
    answer = parts.end(parts.half(), COMMIT, **fields)
    assert answer is not None
    assert answer.code == codes.SYSTEM_ERROR and says in str(answer.remark)
    assert parts.ops() == [] and parts.records("T", 2) == []


def test_an_end_cannot_name_an_ordinary_message(parts: Transactions) -> None:
    plain = parts.answer(send_request(properties=text(PGROUP="pg", REAL_TOPIC="T")))
    assert parts.code(plain, COMMIT) == codes.SYSTEM_ERROR


def test_no_end_is_stored_while_too_few_replicas_are_in_sync(parts: Transactions) -> None:
    parts.writer.role.short = True
    services = Services([parts.service])
    services.serve_as(parts.writer.role)
    assert services.refused == {codes.END_TRANSACTION: TOO_FEW}, "its producer is asked when there are enough"


def test_a_broker_that_becomes_a_slave_asks_nobody_and_one_that_becomes_master_does(parts: Transactions) -> None:
    parts.half()
    parts.role.become("SLAVE", 1, parts.now)
    parts.service.role_changed(parts.role, parts.now)
    parts.later(INTERVAL_MS)
    assert parts.service.due(parts.now) is None
    assert parts.asked() == []
    parts.role.become("ASYNC_MASTER", 0, parts.now)
    parts.service.role_changed(parts.role, parts.now)
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert question.code == codes.CHECK_TRANSACTION_STATE


def test_a_transaction_that_its_master_ended_is_not_open_at_the_next_master(parts: Transactions) -> None:
    """The op record came with the log while this broker was a slave."""
    first, second = parts.half(), parts.half(queue_id=3)
    parts.later(INTERVAL_MS)
    parts.role.become("SLAVE", 1, parts.now)
    parts.service.role_changed(parts.role, parts.now)
    assert parts.service.halves.open_count == 0
    parts.role.become("ASYNC_MASTER", 0, parts.now)
    parts.service.role_changed(parts.role, parts.now)
    assert parts.service.halves.open_count == 2
    assert (first.code, second.code) == (0, 0)


def test_a_transaction_may_be_delayed_once_it_commits(parts: Transactions) -> None:
    half = parts.half(DELAY="3")
    assert parts.records(SCHEDULE_TOPIC, 2) == []
    parts.later(INTERVAL_MS)
    (question,) = parts.asked()
    assert parts.records(SCHEDULE_TOPIC, 2) == []
    assert parts.code(half, COMMIT, **from_check(question)) == 0
    assert len(parts.records(SCHEDULE_TOPIC, 2)) == 1


def test_custom_immunity_ends_the_right_to_a_first_answer(parts: Transactions) -> None:
    half = parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="10")
    short = parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="1")
    odd = parts.half(CHECK_IMMUNITY_TIME_IN_SECONDS="soon")
    parts.now += 6_000
    assert parts.code(short, COMMIT) == 0
    parts.now += 4_001
    assert parts.code(half, COMMIT) == codes.ILLEGAL_OPERATION
    assert parts.code(odd, COMMIT) == codes.ILLEGAL_OPERATION
    assert parts.code(half, COMMIT, fromTransactionCheck="true") == 0
    assert len(parts.records("T", 2)) == 2


def test_open_transactions_have_a_limit(parts: Transactions) -> None:
    parts.service.begin(parts.now)
    parts.service.configure(BrokerOptions.of(max_open_transactions=2))
    first = parts.half()
    parts.half()
    sent = text(UNIQ_KEY="V", TRAN_MSG="true", PGROUP="pg")
    for _ in range(2):  # counted the same before and after they are read
        refused = parts.answer(send_request(properties=sent), parts.now)
        assert (refused.code, refused.remark) == (
            codes.SYSTEM_BUSY,
            "2 transactions are open, as many as maxOpenTransactions allows: end some of them first",
        )
        parts.later(1_000)
    assert parts.answer(send_request(), parts.now).code == 0
    assert parts.code(first, ROLLBACK) == 0
    assert parts.half().code == 0


def test_what_was_given_up_is_not_taken_up_beyond_the_limit(tmp_path: Path) -> None:
    parts = Transactions(tmp_path, transaction_check_max=1)
    parts.half()
    parts.later(3 * INTERVAL_MS)
    (given_up,) = parts.records(TRANS_CHECK_MAX_TIME_TOPIC)
    parts.half()
    parts.service.configure(BrokerOptions.of(max_open_transactions=1))
    name = parts.writer.message_id(given_up.physical_offset)
    request = make_request(codes.RESUME_CHECK_HALF_MESSAGE, 1, {"msgId": name})
    assert (
        reply_of(parts.service.handlers()[codes.RESUME_CHECK_HALF_MESSAGE](parts.channel, request, parts.now)).code
        == codes.SYSTEM_BUSY
    )
    parts.service.configure(BrokerOptions.of(max_open_transactions=2))
    assert (
        reply_of(parts.service.handlers()[codes.RESUME_CHECK_HALF_MESSAGE](parts.channel, request, parts.now)).code == 0
    )
    parts.close()


@pytest.mark.parametrize(("attempts", "half"), [("1", False), ("99", True)], ids=["a retry", "a dead letter"])
def test_a_transactional_retry_with_a_delay(tmp_path: Path, attempts: str, half: bool) -> None:
    """Its delay counts and not its transaction, unless it is a dead letter, whose level is taken back."""
    parts = Transactions(tmp_path)
    sent = text(UNIQ_KEY="U", TRAN_MSG="true", PGROUP="pg", DELAY="3")
    assert parts.answer(send_request("%RETRY%g", properties=sent, j=attempts)).code == 0
    assert len(parts.records(HALF_TOPIC)) == half
    assert len(parts.records(SCHEDULE_TOPIC, 2)) == (not half)
    parts.close()
