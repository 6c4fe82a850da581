"""How often the properties of one message are scanned, parsed and formatted on its way from the request to the record.

The interpreter's profiler counts the calls; compiled code does not show them.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bolide.broker.core.outcome import Outcome
from bolide.broker.delay.recall import RecallService
from bolide.broker.pull.offset_moved import OffsetMovedEvents
from bolide.broker.send.retries import RetryService
from bolide.broker.transactions.transactions import COMMIT
from bolide.layout import message_properties
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, Parts, reply_of, send_request, text
from tests.broker.timer_parts import Timer
from tests.broker.transaction_parts import Transactions, end_request

pytestmark = pytest.mark.skipif(
    not str(message_properties.__file__).endswith(".py"), reason="compiled code does not show its calls"
)
STEPS = {"_scan_text": "scans", "_see_pairs": "scans", "parse_properties": "parses", "format_properties": "formats"}


def steps(walk: Callable[[], Any]) -> tuple[int, int, int]:
    """How often a walk scans, parses and formats properties."""
    counted: Counter[str] = Counter()

    def see(frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_name in STEPS:
            counted[STEPS[frame.f_code.co_name]] += 1

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        walk()
    finally:
        sys.setprofile(before)
    return counted["scans"], counted["parses"], counted["formats"]


@pytest.mark.parametrize(
    ("walk", "properties", "expected"),
    [
        ("plain", {"KEYS": "k", "TAGS": "a"}, (1, 0, 0)),
        ("delay level", {"DELAY": "3"}, (1, 1, 1)),
        ("timer", {"TIMER_DELAY_SEC": "60"}, (1, 1, 1)),
        ("resent", {"MSG_REGION": "r", "TRACE_ON": "true"}, (1, 1, 1)),
        ("resent with a delay level", {"MSG_REGION": "r", "DELAY": "3"}, (1, 1, 1)),
        ("resent with a time", {"MSG_REGION": "r", "TIMER_DELAY_SEC": "60"}, (1, 1, 1)),
        ("both delays", {"DELAY": "3", "TIMER_DELAY_SEC": "60"}, (1, 1, 1)),
    ],
)
def test_a_send(tmp_path: Path, walk: str, properties: dict[str, str], expected: tuple[int, int, int]) -> None:
    parts = Parts(tmp_path)
    parts.answer(send_request())
    command = send_request(properties=text(UNIQ_KEY="U", **properties))
    assert steps(lambda: parts.send(command)) == expected, walk
    parts.close()


def test_a_send_to_a_retry_topic_with_a_delay(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    sent = text(UNIQ_KEY="U", MSG_REGION="r", DELAY="3")
    parts.answer(send_request("%RETRY%g", properties=sent))
    assert steps(lambda: parts.send(send_request("%RETRY%g", properties=sent, j="1"))) == (1, 1, 1)
    parts.close()


@pytest.mark.parametrize("level", ["0", "-1"], ids=["to a delay level", "to the dead letters"])
def test_a_message_sent_back(tmp_path: Path, level: str) -> None:
    parts = Parts(tmp_path)
    parts.answer(send_request(properties=text(UNIQ_KEY="U")))
    retries = RetryService(parts.options, parts.store, parts.writer, parts.topics, parts.groups, parts.stats)
    (record,) = parts.records("T")
    fields = {"offset": str(record.physical_offset), "group": "g", "delayLevel": level}
    command = make_request(codes.CONSUMER_SEND_MSG_BACK, 1, fields)
    assert steps(lambda: retries.handlers()[codes.CONSUMER_SEND_MSG_BACK](parts.channel, command, NOW)) == (1, 1, 1)
    parts.close()


def test_a_recall(tmp_path: Path) -> None:
    parts = Parts(tmp_path, recall_message_enable=True)
    answer = parts.answer(send_request(properties=text(UNIQ_KEY="U", TIMER_DELAY_SEC="60")))
    recalls = RecallService(parts.options, parts.writer, parts.topics)
    fields = {"topic": "T", "recallHandle": answer.ext()["recallHandle"], "producerGroup": "pg"}
    command = make_request(codes.RECALL_MESSAGE, 4, fields)
    assert steps(lambda: recalls.handlers()[codes.RECALL_MESSAGE](parts.channel, command, NOW)) == (1, 0, 1)
    parts.close()


def test_an_offset_moved_event(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    events = OffsetMovedEvents(parts.writer, "b", True)
    assert steps(lambda: events.note("g", "T", 0, asked=1, given=2, now=NOW)) == (1, 0, 1)
    parts.close()


@pytest.mark.parametrize("delay", [{}, {"DELAY": "3"}], ids=["plain", "delayed"])
def test_a_transaction(tmp_path: Path, delay: dict[str, str]) -> None:
    """Its half message, its commit (with the op record, whose properties are scanned once for all), its renewal."""
    parts = Transactions(tmp_path)
    parts.half()
    parts.code(parts.half(), COMMIT)
    answers: list[Outcome] = []

    def half() -> Command:
        sent = text(UNIQ_KEY="U", TRAN_MSG="true", PGROUP="pg", **delay)
        command = send_request(properties=sent, f="4", g=str(parts.now))
        assert steps(lambda: answers.append(parts.send(command, parts.now))) == (1, 1, 1)
        parts.settle()
        return reply_of(answers.pop())

    end = end_request(half(), COMMIT)
    assert steps(lambda: parts.service.handlers()[codes.END_TRANSACTION](parts.channel, end, parts.now)) == (1, 1, 1)
    parts.settle()
    parts.later(1_000)
    parts.now += 40_000
    assert steps(lambda: parts.service.tick(parts.now, 100)) == (1, 1, 1)  # the one that is still open
    parts.close()


def test_a_message_of_the_timer() -> None:
    timer = Timer()
    timer.send("k", 3_000)
    assert steps(lambda: timer.service.tick(timer.now, 10)) == (0, 1, 0)  # into the wheel: nothing is stored
    timer.turn()
    assert steps(lambda: timer.service.tick(timer.now + 6_000, 100)) == (1, 1, 1)
    timer.close()
