"""RECALL_MESSAGE: its checks in Java's order, and the delete it stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.broker.core.outcome import Parked
from bolide.broker.delay.recall import RecallService
from bolide.layout.names import TIMER_TOPIC
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.errors import BodyError
from bolide.remoting.recall_handle import decode_recall_handle, encode_recall_handle
from bolide.store.background.running_flags import NOT_WRITABLE
from tests.broker.parts import NOW, PEER, Parts, properties_of, reply_of, send_request, text

DAYS_3 = 3 * 24 * 3600 * 1000


class Recalling(Parts):
    """The parts, with a message that waits."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **{"recall_message_enable": True, **settings})
        self.recalls = RecallService(self.options, self.writer, self.topics)
        answer = self.answer(send_request(properties=text(UNIQ_KEY="U", TIMER_DELAY_SEC="60")))
        self.handle = answer.ext()["recallHandle"]

    def recall(self, handle: str = "", topic: str = "T", now: int = NOW, **fields: str) -> Command:
        ext = {"topic": topic, "recallHandle": handle or self.handle, "producerGroup": "pg", **fields}
        outcome = self.recalls.handlers()[codes.RECALL_MESSAGE](
            self.channel, make_request(codes.RECALL_MESSAGE, 4, ext), now
        )
        if isinstance(outcome, Parked):
            assert outcome.offset == self.store.end_offset
        self.settle()
        return reply_of(outcome)


def test_a_recall_is_a_delete_in_the_slot_of_its_message(tmp_path: Path) -> None:
    parts = Recalling(tmp_path)
    answer = parts.recall()
    assert (answer.code, answer.ext()) == (0, {"MSG_REGION": "DefaultRegion", "msgId": "U"})
    message, delete = parts.records(TIMER_TOPIC)
    properties = properties_of(delete)
    assert properties["TIMER_OUT_MS"] == properties_of(message)["TIMER_OUT_MS"] == str(NOW + 59_000)
    assert properties == {
        "TAGS": "_RECALL_TAG_",
        "TIMER_DEL_UNIQKEY": "U",
        "UNIQ_KEY": "U",
        "TIMER_DELIVER_MS": str(NOW + 59_001),
        "BORN_TIMESTAMP": str(NOW),
        "PGROUP": "pg",
        "TIMER_OUT_MS": str(NOW + 59_000),
        "REAL_TOPIC": "T",
        "REAL_QID": "0",
    }
    assert (delete.body, delete.born_host, delete.born_timestamp) == (b"0", PEER, NOW)
    parts.close()


def test_the_wall_clock_says_whether_it_still_waits(tmp_path: Path) -> None:
    parts = Recalling(tmp_path)
    parts.store.clock_set(-3_600_000)
    assert parts.recall(now=NOW + 60_000).code == 0
    delete = parts.records(TIMER_TOPIC)[1]
    assert properties_of(delete)["BORN_TIMESTAMP"] == str(delete.born_timestamp) == str(NOW + 60_000 - 3_600_000)
    parts.store.clock_set(60_000)
    assert parts.recall(now=NOW).remark == "recall failed, timestamp invalid"
    parts.close()


def test_the_key_may_name_the_topic(tmp_path: Path) -> None:
    parts = Recalling(tmp_path, append_topic_for_timer_delete_key=True)
    assert parts.recall().code == 0
    assert properties_of(parts.records(TIMER_TOPIC)[1])["TIMER_DEL_UNIQKEY"] == "T+U"
    parts.close()


@pytest.mark.parametrize(
    "settings, code, remark",
    [
        ({"recall_message_enable": False}, codes.NO_PERMISSION, "recall failed, operation is forbidden"),
        (
            {"start_accept_send_request_time_stamp": NOW + 1},
            codes.SERVICE_NOT_AVAILABLE,
            "recall failed, broker service not available",
        ),
        (
            {"broker_permission": 4, "allow_recall_when_broker_not_writeable": False},
            codes.SERVICE_NOT_AVAILABLE,
            "recall failed, broker service not available",
        ),
        ({"broker_permission": 4}, codes.SUCCESS, None),
    ],
)
def test_brokers_that_recall_nothing_now(
    tmp_path: Path, settings: dict[str, Any], code: int, remark: str | None
) -> None:
    parts = Recalling(tmp_path)
    other = Parts(tmp_path / "other", **{"recall_message_enable": True, **settings})
    other.close()
    parts.recalls.configure(other.options)
    answer = parts.recall()
    assert (answer.code, answer.remark) == (code, remark)
    parts.close()


def test_handles_that_take_nothing_back(tmp_path: Path) -> None:
    parts = Recalling(tmp_path)
    invalid = (codes.ILLEGAL_OPERATION, "recall handle is invalid")
    gone = (codes.ILLEGAL_OPERATION, "recall failed, timestamp invalid")
    rows = [
        ({"topic": "U"}, (codes.TOPIC_NOT_EXIST, "recall failed, the topic[U] not exist")),
        ({"handle": "?"}, invalid),
        ({"handle": "djEgVA=="}, invalid),
        ({"handle": parts.handle, "topic": "broker-a"}, (codes.ILLEGAL_OPERATION, "recall failed, topic not match")),
        (
            {"handle": encode_recall_handle("T", "other", NOW + 9, "U")},
            (codes.ILLEGAL_OPERATION, "recall failed, broker service not available"),
        ),
        ({"now": NOW + 59_001}, gone),
        ({"handle": encode_recall_handle("T", "broker-a", NOW + DAYS_3, "U")}, gone),
        ({"handle": encode_recall_handle("T", "broker-a", NOW, "U")}, gone),
    ]
    for fields, expected in rows:
        answer = parts.recall(**fields)  # type: ignore[arg-type]  # a row names the arguments it changes
        assert (answer.code, answer.remark) == expected, fields
        assert answer.ext() == {"MSG_REGION": "DefaultRegion"}
    assert len(parts.records(TIMER_TOPIC)) == 1
    parts.store.flags.set(NOT_WRITABLE)
    answer = parts.recall()
    assert (answer.code, answer.remark) == (codes.SYSTEM_ERROR, "recall failed, execute error")
    parts.close()


@pytest.mark.parametrize("padded", [True, False])
def test_handles_are_read_as_java_reads_them(padded: bool) -> None:
    handle = encode_recall_handle("%RETRY%主题", "broker-a", 17, "键")
    assert handle == "djEgJVJFVFJZJeS4u-mimCBicm9rZXItYSAxNyDplK4="
    read = handle if padded else handle.rstrip("=")
    assert decode_recall_handle(read) == ("%RETRY%主题", "broker-a", "17", "键")


@pytest.mark.parametrize("handle", ["", "a b", "djEgVCBiIDE=", "djIgVCBiIDEgVQ==", "+/+/", "a"])
def test_handles_that_are_none(handle: str) -> None:
    with pytest.raises(BodyError, match="recall handle is invalid"):
        decode_recall_handle(handle)


def test_a_slave_recalls_nothing(tmp_path: Path) -> None:
    parts = Recalling(tmp_path)
    parts.role.become("SLAVE", 1, NOW)
    answer = parts.recall()
    expected = (codes.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available")
    assert (answer.code, answer.remark) == expected
    parts.close()
