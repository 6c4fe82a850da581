"""Transactions when what the broker reads was forged, is odd, or is much: nobody else suffers for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.transactions.half_checks import BYTES_AT_ONCE
from bolide.broker.transactions.transactions import COMMIT, ROLLBACK
from bolide.layout.message_id import decode_offset_message_id
from bolide.layout.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from bolide.layout.record import Record
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.store.disk.files import FileFailed
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import message, reply_of, send_request, text
from tests.broker.transaction_parts import (
    INTERVAL_MS,
    Transactions,
    commit_all_asked,
    delivered,
    disk,
    end_request,
    on_a_simulated_disk,
)
from tests.layout.records import record_bytes


@pytest.fixture
def parts() -> Iterator[Transactions]:
    with on_a_simulated_disk() as made:
        yield made


def store_half(parts: Transactions, properties: dict[str, str], body: bytes = b"forged") -> Record:
    """A half message as no send makes it: of a store that others wrote."""
    given = {"UNIQ_KEY": "F", "TRAN_MSG": "true", "PGROUP": "pg", "REAL_TOPIC": "T", "REAL_QID": "2", **properties}
    at = parts.writer.put(message(HALF_TOPIC, 0, body, text(**given), parts.now), parts.now)
    parts.settle()
    record = parts.store.record_at(at.physical_offset)
    assert record is not None
    return record


def end_of(parts: Transactions, record: Record, how: int = COMMIT) -> Command:
    fields = {"queueOffset": str(record.queue_offset), "msgId": parts.writer.message_id(record.physical_offset)}
    answer = parts.end(make_request(0, 1, fields), how)
    assert answer is not None
    return answer


@pytest.mark.parametrize(
    "properties",
    [
        {"REAL_QID": "abc"},
        {"REAL_QID": "-1"},
        {"REAL_QID": "65536"},
        {"REAL_QID": "9" * 5000},
        {"REAL_TOPIC": "../../OUTSIDE"},
        {"REAL_TOPIC": "nul\x00"},
        {"REAL_TOPIC": ""},
        {"REAL_TOPIC": HALF_TOPIC},
        {"REAL_TOPIC": OP_HALF_TOPIC},
        {"REAL_TOPIC": TRANS_CHECK_MAX_TIME_TOPIC},
        {"REAL_TOPIC": "SCHEDULE_TOPIC_XXXX"},
        {"REAL_TOPIC": "rmq_sys_wheel_timer"},
    ],
)
def test_a_half_message_for_nowhere_is_not_committed_but_given_up(
    parts: Transactions, properties: dict[str, str]
) -> None:
    forged = store_half(parts, properties)
    honest = parts.half()
    stored = parts.store.written_offset
    refused = parts.service.handlers()[codes.END_TRANSACTION]
    with pytest.raises(Exception, match="the message is illegal") as raised:
        refused(
            parts.channel,
            end_request(
                make_request(0, 1, {"queueOffset": "0", "msgId": parts.writer.message_id(forged.physical_offset)}),
                COMMIT,
            ),
            parts.now,
        )
    assert getattr(raised.value, "response_code", 0) == codes.MESSAGE_ILLEGAL
    parts.settle()
    assert parts.store.written_offset == stored
    parts.later(INTERVAL_MS)
    (lost,) = parts.records(TRANS_CHECK_MAX_TIME_TOPIC)
    assert lost.body == b"forged" and len(parts.records(HALF_TOPIC)) == 3
    (question,) = parts.asked()
    assert question.ext()["msgId"] == "U"
    assert parts.code(honest, COMMIT) == 0 and delivered(parts) == {"U": 1}
    parts.later(4 * INTERVAL_MS)
    assert len(parts.records(TRANS_CHECK_MAX_TIME_TOPIC)) == 1 and len(parts.records(HALF_TOPIC)) == 3


def test_a_rollback_needs_no_place(parts: Transactions) -> None:
    assert end_of(parts, store_half(parts, {"REAL_QID": "abc"}), ROLLBACK).code == 0
    parts.later(2 * INTERVAL_MS)
    assert parts.records(TRANS_CHECK_MAX_TIME_TOPIC) == []


def test_a_topic_that_is_gone_still_gets_what_commits(parts: Transactions) -> None:
    half = parts.half()
    parts.topics.delete("T", parts.now)
    assert parts.code(half, COMMIT) == 0 and len(parts.records("T", 2)) == 1


@pytest.mark.parametrize(
    ("properties", "given_up"),
    [
        ({"K": "x" * 32_700}, True),  # no room for the counter
        ({"TRANSACTION_CHECK_TIMES": "9" * 5000}, False),
        ({"TRANSACTION_CHECK_TIMES": "soon"}, False),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "3600", "TRAN_PREPARED_QUEUE_OFFSET": "9" * 5000}, False),
        ({"DELAY": "1"}, False),
    ],
)
def test_an_odd_half_message_does_not_keep_the_round_from_others(
    parts: Transactions, properties: dict[str, str], given_up: bool
) -> None:
    store_half(parts, properties)
    honest = parts.half()
    for _ in range(3):
        parts.later(INTERVAL_MS)
        assert "U" in {question.ext()["msgId"] for question in parts.asked()}
    assert len(parts.records(TRANS_CHECK_MAX_TIME_TOPIC)) == given_up
    assert len(parts.records(HALF_TOPIC)) <= 8
    assert parts.code(honest, COMMIT) == 0 and delivered(parts) == {"U": 1}


def test_a_half_message_that_cannot_be_stored_again_keeps_the_round_from_nobody(parts: Transactions) -> None:
    """The limit was lowered below its size: it can be neither renewed nor given up."""
    store_half(parts, {}, b"x" * 5_000)
    parts.half()
    parts.store.log.max_message_size = 1_000
    parts.later(INTERVAL_MS)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U"]


def test_a_half_message_that_cannot_be_read_keeps_the_round_from_nobody(parts: Transactions) -> None:
    for name in ("U0", "U1", "U2"):
        parts.half(UNIQ_KEY=name)
    parts.later(INTERVAL_MS - 1)
    parts.now += 1
    disk(parts).fail_next("read_at")
    parts.service.tick(parts.now, 1000)
    parts.settle()
    parts.later(100)
    assert [question.ext()["msgId"] for question in parts.asked()] == ["U1", "U2"]
    parts.later(INTERVAL_MS)
    assert {question.ext()["msgId"] for question in parts.asked()} == {"U0", "U1", "U2"}


def forged_in_a_body(parts: Transactions, topic: str) -> int:
    """Send bytes that are a record of this topic where they come to lie, at the offset that is returned."""
    base = place = int(parts.store.written_offset)
    for _ in range(2):  # first to learn where the body will lie, then with the record that lies there
        inside = forged_record(base + 300, topic)
        at = parts.answer(send_request("Plain", inside))
        record = parts.store.record_at(decode_offset_message_id(at.ext()["msgId"])[2])
        assert record is not None
        raw = parts.store.record_bytes(record.physical_offset)
        assert raw is not None
        place = record.physical_offset + raw.index(inside)
        base = int(parts.store.written_offset) + place - record.physical_offset - 300
    found = parts.store.record_at(place)
    assert found is not None and found.topic == topic, "the bytes look like a record"
    return place


def test_bytes_in_a_body_are_no_half_message(parts: Transactions) -> None:
    """They could end the transaction of somebody else: the offset in the half queue is part of them."""
    victim = parts.half(UNIQ_KEY="V", PGROUP="victims")
    place = forged_in_a_body(parts, HALF_TOPIC)
    fields = {"queueOffset": "0", "msgId": parts.writer.message_id(place)}
    answer = parts.end(make_request(0, 1, fields), COMMIT)
    assert answer is not None and answer.code == codes.SYSTEM_ERROR
    assert parts.code(victim, COMMIT, producerGroup="victims") == 0
    assert delivered(parts) == {"V": 1}


def test_bytes_in_a_body_were_not_given_up(parts: Transactions) -> None:
    place = forged_in_a_body(parts, TRANS_CHECK_MAX_TIME_TOPIC)
    assert resume(parts, place).code == codes.SYSTEM_ERROR
    assert parts.records(HALF_TOPIC) == []


def forged_record(physical_offset: int, topic: str) -> bytes:
    properties = text(UNIQ_KEY="F", PGROUP="pg", REAL_TOPIC="T", REAL_QID="2").encode()
    return record_bytes(topic, b"forged", properties, physical_offset=physical_offset)


def test_an_end_counts_before_its_half_message_is_dispatched(parts: Transactions) -> None:
    """A producer that does not wait for the disk (WAIT=false) may be that fast."""
    sent = text(UNIQ_KEY="U", TRAN_MSG="true", PGROUP="pg", WAIT="false")
    answer = reply_of(parts.send(send_request(properties=sent, e="2"), parts.now))
    parts.store.write_pending()
    assert parts.store.max_queue_offset(HALF_TOPIC, 0) == 0
    assert parts.code(answer, COMMIT) == 0 and delivered(parts) == {"U": 1}
    assert parts.code(answer, COMMIT) == 0 and delivered(parts) == {"U": 1}


# -- taking up what was given up


def resume(parts: Transactions, physical_offset: int) -> Command:
    fields = {"msgId": parts.writer.message_id(physical_offset)}
    command = make_request(codes.RESUME_CHECK_HALF_MESSAGE, 1, fields)
    answer = reply_of(parts.service.handlers()[codes.RESUME_CHECK_HALF_MESSAGE](parts.channel, command, parts.now))
    parts.settle()
    return answer


def test_only_what_was_given_up_is_taken_up(parts: Transactions) -> None:
    forged = text(REAL_TOPIC="T", REAL_QID="2", PGROUP="pg", UNIQ_KEY="F")
    plain = parts.answer(send_request("Plain", properties=forged))
    half = parts.half()
    for sent in (plain, half):
        answer = resume(parts, decode_offset_message_id(sent.ext()["msgId"])[2])
        assert answer.code == codes.SYSTEM_ERROR and "was given up" in str(answer.remark)
    assert len(parts.records(HALF_TOPIC)) == 1
    refused = parts.answer(send_request(TRANS_CHECK_MAX_TIME_TOPIC, properties=forged))
    assert refused.code == codes.NO_PERMISSION


def test_what_was_given_up_for_its_place_is_not_taken_up(parts: Transactions) -> None:
    store_half(parts, {"REAL_TOPIC": OP_HALF_TOPIC})
    parts.later(INTERVAL_MS)
    (lost,) = parts.records(TRANS_CHECK_MAX_TIME_TOPIC)
    answer = resume(parts, lost.physical_offset)
    assert answer.code == codes.SYSTEM_ERROR and OP_HALF_TOPIC in str(answer.remark)


def test_what_was_given_up_without_a_producer_group_is_not_put_back(parts: Transactions) -> None:
    given = text(UNIQ_KEY="F", REAL_TOPIC="T", REAL_QID="2")
    lost = parts.writer.put(message(TRANS_CHECK_MAX_TIME_TOPIC, 0, b"forged", given, parts.now), parts.now)
    parts.settle()
    answer = resume(parts, lost.physical_offset)
    assert (answer.code, parts.records(HALF_TOPIC)) == (codes.SYSTEM_ERROR, [])
    assert "PGROUP" in str(answer.remark) and "queue" not in str(answer.remark)


def test_it_is_taken_up_once() -> None:
    files = SimulatedFiles()
    files.make_dir("/store")
    parts = Transactions(Path("/store"), files, transaction_check_max=1)
    parts.half()
    parts.later(2 * INTERVAL_MS)
    (lost,) = parts.records(TRANS_CHECK_MAX_TIME_TOPIC)
    files.fail_next("write_at")
    command = make_request(codes.RESUME_CHECK_HALF_MESSAGE, 1, {"msgId": parts.writer.message_id(lost.physical_offset)})
    parts.service.handlers()[codes.RESUME_CHECK_HALF_MESSAGE](parts.channel, command, parts.now)
    with pytest.raises(FileFailed):
        parts.store.write_pending()
    count = len(parts.records(HALF_TOPIC))
    assert [resume(parts, lost.physical_offset).code for _ in range(3)] == [0, 0, 0]
    assert len(parts.records(HALF_TOPIC)) == count + 1
    parts.asked()
    parts.later(INTERVAL_MS)
    commit_all_asked(parts)
    assert delivered(parts) == {"U": 1}
    parts.close()


# -- how much at once


def test_a_round_over_large_messages_takes_many_ticks(parts: Transactions) -> None:
    for number in range(6):
        parts.half(UNIQ_KEY=f"U{number}", K="x" * 30_000)
    large = [parts.store.record_at(unit[0], unit[1]) for unit in parts.store.units(HALF_TOPIC, 0, 0, 6)]
    assert all(record is not None and 6 * record.total_size < BYTES_AT_ONCE for record in large)
    for number in range(4):
        store_half(parts, {"UNIQ_KEY": f"L{number}"}, b"x" * 900_000)
    parts.later(INTERVAL_MS - 1)
    parts.now += 1
    before = parts.store.end_offset
    parts.service.tick(parts.now, 1000)
    assert 0 < parts.store.end_offset - before < BYTES_AT_ONCE + 1_500_000
    assert parts.service.due(parts.now) == parts.now
    parts.settle()
    assert 6 < parts.store.max_queue_offset(HALF_TOPIC, 0) - 10 < 10
    for _ in range(2):
        parts.service.tick(parts.now, 1000)
        parts.settle()
    assert 0 < sum(len(question.body) for question in parts.asked()) < 3 * BYTES_AT_ONCE
    parts.later(1_000)


def test_who_does_not_read_is_not_asked(parts: Transactions) -> None:
    parts.half()
    parts.producer.queued = parts.options.connections.client_write_buffer_high + 1
    parts.later(INTERVAL_MS)
    assert parts.asked() == []
    parts.producer.queued = 0
    parts.later(INTERVAL_MS)
    assert len(parts.asked()) == 1
