"""The way into the log: what it never stores, for any writer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.append.log_writer import refuse_zeros
from bolide.broker.refused import Refused
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.remoting import codes
from bolide.remoting.batch import BatchMessage, encode_batch
from bolide.remoting.codes import MESSAGE_ILLEGAL
from tests.broker.parts import NOW, Parts, again, message, send_request, text


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    yield made
    made.close()


TOO_LONG = ("x" * 128, "%DLQ%" + "g" * 123, "%RETRY%" + "g" * 249)


@pytest.mark.parametrize("topic", ["", " ", ".", "..", "../../T", "a/b", "a\0b", "a.b", "T\u00fc", *TOO_LONG])
def test_a_topic_that_is_none_is_refused_whoever_writes(parts: Parts, topic: str) -> None:
    parts.answer(send_request(queue_id="0"))
    (record,) = parts.records("T")
    end = parts.store.end_offset
    for _ in range(2):
        assert not parts.writer.takes(topic, 0)
        with pytest.raises(Refused) as refused:
            parts.writer.put(again(record, topic, 0, text(UNIQ_KEY="u")), NOW)
        assert refused.value.response_code == MESSAGE_ILLEGAL
        with pytest.raises(Refused):
            parts.writer.put(message(topic), NOW)
    assert parts.store.end_offset == end


@pytest.mark.parametrize("queue_id", [-1, 65_536, 1 << 31])
def test_a_queue_that_cannot_be_is_refused_whoever_writes(parts: Parts, queue_id: int) -> None:
    assert not parts.writer.takes("T", queue_id)
    with pytest.raises(Refused, match="queues go from 0 to 65535") as refused:
        parts.writer.put(message("T", queue_id), NOW)
    assert refused.value.response_code == MESSAGE_ILLEGAL
    assert parts.writer.takes("T", 65_535)


@pytest.mark.parametrize("topic", ["T", "%RETRY%" + "g" * 248, "%DLQ%g", "%LMQ%a-b_c", "rmq_sys_wheel_timer"])
def test_every_name_that_rocketmq_allows_is_taken(parts: Parts, topic: str) -> None:
    assert parts.writer.takes(topic, 0)
    parts.writer.put(message(topic), NOW)


def test_a_delayed_message_is_checked_before_it_waits(parts: Parts) -> None:
    """Later it would have nowhere to go."""
    for topic, queue_id in (("../T", 0), ("T", -1)):
        with pytest.raises(Refused):
            parts.writer.put(message(topic, queue_id, b"", text(DELAY="1")), NOW)
    assert parts.store.next_queue_offset(SCHEDULE_TOPIC, 0) == 0


def test_a_delay_that_has_acted_may_say_anything(parts: Parts) -> None:
    """A record from another's hand: its delivery must not stop at it."""
    parts.answer(send_request(queue_id="0"))
    (record,) = parts.records("T")
    copy = again(record, "T", 1, text(DELAY="none"))
    parts.writer.put(copy, NOW)
    copy.delays = True
    with pytest.raises(Refused):
        parts.writer.put(copy, NOW)


@pytest.mark.parametrize(
    ("properties", "at_the_end", "taken"),
    [
        ("a\x01b\x02", True, True),
        ("a\x01b\0b\x02", True, True),
        ("a\x01" + "\0" * 511 + "\x02", True, True),
        ("a\x01" + "\0" * 512 + "\x02", False, False),
        ("a\x01b\0", True, False),
        ("a\x01b\0", False, True),
    ],
)
def test_properties_that_look_like_a_hole_are_refused(properties: str, at_the_end: bool, taken: bool) -> None:
    if taken:
        refuse_zeros(properties, at_the_end)
        return
    with pytest.raises(Refused) as refused:
        refuse_zeros(properties, at_the_end)
    assert refused.value.response_code == MESSAGE_ILLEGAL


def test_sends_with_such_properties_are_refused(parts: Parts) -> None:
    hole = "a\x01" + "\0" * 512 + "\x02"
    assert parts.answer(send_request(properties=hole)).code == MESSAGE_ILLEGAL
    body = encode_batch([BatchMessage(0, b"x", b"a\x01b\0")])
    batch = send_request(body=body, code=codes.SEND_BATCH_MESSAGE, m="true")
    assert parts.answer(batch).code == MESSAGE_ILLEGAL
