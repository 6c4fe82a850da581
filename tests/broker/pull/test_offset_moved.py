"""OFFSET_MOVED_EVENT: who is told to go on elsewhere leaves a note."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.pull.offset_moved import AGAIN_AFTER_MS, OffsetMovedEvents
from bolide.remoting import codes
from bolide.store.background.running_flags import NOT_WRITABLE
from bolide.store.disk.files import FileFailed
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import NOW, STORE, Parts, properties_of, send_request

EVENTS = "OFFSET_MOVED_EVENT"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    made.answer(send_request())
    yield made
    made.close()


def test_a_corrected_pull_leaves_an_event(parts: Parts) -> None:
    answer = parts.pulled(offset=40)
    assert (answer.code, answer.ext()["nextBeginOffset"]) == (codes.PULL_OFFSET_MOVED, "1")
    parts.settle()
    (event,) = parts.records(EVENTS)
    assert json.loads(event.body) == {
        "consumerGroup": "g",
        "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
        "offsetNew": 1,
        "offsetRequest": 40,
    }
    assert properties_of(event) == {"TAGS": "g", "KEYS": "g", "DELAY": "0"}
    assert (event.born_host, event.queue_id, event.born_timestamp) == (STORE, 0, NOW)


def test_a_pull_that_is_right_or_only_too_early_leaves_none(parts: Parts) -> None:
    assert parts.pulled(offset=0).code == codes.SUCCESS
    assert parts.pulled(offset=1).code == codes.PULL_NOT_FOUND
    parts.settle()
    assert parts.records(EVENTS) == []


def test_the_same_wrong_pull_is_noted_once_a_minute(parts: Parts) -> None:
    for _ in range(3):
        parts.pulled(offset=40)
    parts.pulled(offset=41)
    parts.settle()
    assert len(parts.records(EVENTS)) == 2
    parts.pulled(NOW + AGAIN_AFTER_MS, offset=40)
    parts.settle()
    assert len(parts.records(EVENTS)) == 3


def test_an_event_that_could_not_be_stored_is_noted_again() -> None:
    files = SimulatedFiles()
    parts = Parts(Path("/store"), files=files)
    parts.answer(send_request())
    parts.pulled(offset=40)
    files.fail_next("write_at")
    with pytest.raises(FileFailed):
        parts.settle()
    files.faults_over()
    parts.store.flags.set(NOT_WRITABLE)
    parts.pulled(offset=40)  # the door is shut
    parts.store.flags.clear(NOT_WRITABLE)
    parts.pulled(offset=40)
    parts.pulled(offset=40)
    parts.settle()
    assert len(parts.records(EVENTS)) == 1
    parts.close()


def test_a_reset_by_an_operator_leaves_one(parts: Parts) -> None:
    parts.offsets.assign_reset("g", "T", 0, 0, NOW)
    assert parts.pulled(offset=1).code == codes.PULL_OFFSET_MOVED
    parts.settle()
    (event,) = parts.records(EVENTS)
    assert (json.loads(event.body)["offsetRequest"], json.loads(event.body)["offsetNew"]) == (1, 0)


def test_a_store_that_takes_nothing_does_not_keep_the_pull_from_its_answer(parts: Parts) -> None:
    parts.store.stop_writing("the disk is gone")
    assert parts.pulled(offset=40).code == codes.PULL_OFFSET_MOVED


def test_it_can_be_switched_off_as_5_x_has_it(tmp_path: Path) -> None:
    parts = Parts(tmp_path, offset_moved_event_enable=False)
    assert parts.answer(send_request()).code == codes.SUCCESS
    assert parts.pulled(offset=40).code == codes.PULL_OFFSET_MOVED
    parts.settle()
    assert parts.records(EVENTS) == []
    parts.close()


def test_what_may_be_noted_again_is_not_remembered(parts: Parts) -> None:
    events = OffsetMovedEvents(parts.writer, "broker-a", enabled=True)

    def note(queue_id: int, seconds: int) -> None:
        events.note("g", "T", queue_id, asked=40, given=1, now=NOW + seconds * 1000)

    for queue_id in range(50):
        note(queue_id, queue_id)
    assert events.remembered == 50
    note(0, 60)  # only this one may be told again by then
    assert events.remembered == 50
    note(0, 61)
    assert events.remembered == 50
    note(1, 300)
    assert events.remembered == 1
