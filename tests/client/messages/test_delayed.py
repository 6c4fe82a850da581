"""Messages that wait for any time: what is refused, how it travels, and taking one back from a real broker."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from bolide.client import Message, ReceivedMessage, blocking
from bolide.client.messages.delayed import delay_property
from bolide.client.messages.encoding import properties_text
from bolide.client.messages.errors import MessageRefused, ResponseError
from bolide.client.producing.message_sender import pack_batch
from bolide.errors import ConnectionLost
from bolide.layout.properties import parse_properties
from bolide.remoting import codes
from bolide.remoting.recall_handle import encode_recall_handle
from bolide.testing.broker import Broker

TIMERS = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")


@pytest.mark.parametrize(
    "message, expected",
    [
        (Message("T", b"x", delay=90), {"TIMER_DELAY_SEC": "90"}),
        (Message("T", b"x", delay=1.5), {"TIMER_DELAY_MS": "1500"}),
        (Message("T", b"x", delay=timedelta(minutes=2)), {"TIMER_DELAY_SEC": "120"}),
        (Message("T", b"x", delay=timedelta(milliseconds=7)), {"TIMER_DELAY_MS": "7"}),
        (Message("T", b"x", deliver_at=1_700_000_000_250.4), {"TIMER_DELIVER_MS": "1700000000250"}),
        (Message("T", b"x", deliver_at=0), {"TIMER_DELIVER_MS": "0"}),
        (Message("T", b"x", deliver_at=datetime(2030, 1, 1, tzinfo=UTC)), {"TIMER_DELIVER_MS": "1893456000000"}),
        (
            Message("T", b"x", deliver_at=datetime(2030, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))),
            {"TIMER_DELIVER_MS": "1893456000000"},
        ),
        (Message("T", b"x"), {}),
    ],
)
def test_when_a_message_is_due_travels_as_java_s_properties(message: Message, expected: dict[str, str]) -> None:
    properties = parse_properties(properties_text(message, "ID"))
    assert {name: properties[name] for name in TIMERS if name in properties} == expected
    assert message.delayed == bool(expected)


@pytest.mark.parametrize(
    "message, said",
    [
        (Message("T", b"x", delay=1, deliver_at=2e12), "one of the two"),
        (Message("T", b"x", delay=1, delay_level=2), "one of them"),
        (Message("T", b"x", deliver_at=0, delay_level=2), "one of them"),
        (Message("T", b"x", delay=-1), "seconds from 0"),
        (Message("T", b"x", delay=math.nan), "seconds from 0"),
        (Message("T", b"x", deliver_at=math.inf), "milliseconds since 1970"),
        (Message("T", b"x", deliver_at=1_763_831_234), "seconds must be multiplied by 1000"),
        (Message("T", b"x", deliver_at=datetime(2030, 1, 1)), "time zone"),  # noqa: DTZ001  # the mistake under test
        (Message("T", b"x", properties={"TIMER_DELAY_SEC": "1"}), "reserved"),
    ],
)
def test_times_that_are_none(message: Message, said: str) -> None:
    with pytest.raises(MessageRefused, match=said):
        properties_text(message, "ID")


@pytest.mark.parametrize("late", [{"delay": 1}, {"deliver_at": 2**41}, {"delay_level": 1}])
def test_a_batch_takes_no_delays(late: dict[str, int]) -> None:
    with pytest.raises(MessageRefused, match="neither delays"):
        pack_batch([Message("T", b"x"), Message("T", b"x", **late)], 1000, lambda: "ID")  # type: ignore[arg-type]  # one of three fields


def test_no_delay_is_due_at_once() -> None:
    assert delay_property(0, None) == "TIMER_DELAY_SEC\x010\x02"


def taken_back(producer: blocking.Producer, ahead: int) -> bool:
    """Take back a message due in so many seconds; False when that was too late to judge by.

    From one slot, which is a second long, before it is due, it may be on its way.
    """
    due = time.time() + ahead
    taken = producer.send(Message("Later", b"taken %d" % ahead, deliver_at=due * 1000))
    try:
        assert producer.recall("Later", taken.recall_handle, 60) == taken.message_id
    except (MessageRefused, ResponseError):
        assert time.time() > due - 1.5  # only then may the broker say that its time is over
        return False
    return time.time() <= due - 1.5


@pytest.mark.bolide_broker(recall_message_enable=True)
def test_a_message_waits_and_another_is_taken_back(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("Later", queues=1)
    with blocking.Producer("P", bolide_broker.namesrv_addr, timeout=60) as producer:
        at_once = producer.send(Message("Later", b"now"))
        begin = time.time()
        kept = producer.send(Message("Later", b"kept", delay=2))
        assert (at_once.recall_handle, bool(kept.recall_handle)) == ("", True)
        ahead = next((seconds for seconds in (2, 4, 8, 16) if taken_back(producer, seconds)), 0)
        assert ahead, "no message was taken back in time: the machine is too slow to judge"
        last = producer.send(Message("Later", b"last", delay=ahead + 1))
        with pytest.raises(MessageRefused, match="recall handle is invalid"):
            producer.recall("Later", "nonsense")
        with pytest.raises(ResponseError, match="topic not match") as refused:
            producer.recall("TBW102", last.recall_handle, 60)
        assert refused.value.code == codes.ILLEGAL_OPERATION
        with pytest.raises(ConnectionLost, match="has no master now"):
            producer.recall("Later", encode_recall_handle("Later", "elsewhere", 1, "U"))
        found: list[ReceivedMessage] = []
        with blocking.PullConsumer("G", bolide_broker.namesrv_addr, start_from="first") as consumer:
            consumer.subscribe("Later")
            while not found or found[-1].body != b"last":
                found += consumer.poll()
                if any(message.body == b"kept" for message in found):
                    assert time.time() >= begin + 2
        too_late = {b"taken %d" % seconds for seconds in (2, 4, 8, 16) if seconds < ahead}
        assert [message.body for message in found if message.body not in too_late] == [b"now", b"kept", b"last"]
