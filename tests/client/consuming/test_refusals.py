"""A consumer that brokers reject after its start: what it reports, and how often it is logged."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bolide.client import ResponseError
from bolide.client.consuming.process_queue import ProcessQueue
from bolide.client.consuming.refusals import AGAIN, GroupRefusals
from bolide.errors import ConnectionLost
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, Q1, consumer
from tests.client.scripted_broker import ScriptedBroker, refusing

REFUSED = ResponseError("the group may not consume", codes.NO_PERMISSION)


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "brokers reject" in record.getMessage()]


def test_rejection_is_logged_again_after_five_minutes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "bolide.client")
    refusals, queues = GroupRefusals("G"), [ProcessQueue(Q0), ProcessQueue(Q1)]
    queues[0].pull_failed(REFUSED)
    for now in (1000.0, 1000.0 + AGAIN - 1):
        refusals.report(REFUSED, queues, now)
    assert reports(caplog) == [
        "brokers reject 1 of the 2 queues of consumer G: the group may not consume; this is logged every 5 minutes"
    ]
    refusals.report(None, queues, 1000.0 + AGAIN)
    assert len(reports(caplog)) == 1
    refusals.report(REFUSED, queues, 1000.0 + AGAIN)
    assert len(reports(caplog)) == 2


def test_only_rejections_are_stored() -> None:
    refusals = GroupRefusals("G")
    refusals.note("T", ConnectionLost("the broker is away"))
    assert refusals.of_topics is None
    refusals.note("T", REFUSED)
    assert refusals.of_topics is refusals.of_topic("T") is REFUSED and refusals.of_topic("U") is None
    refusals.forget("T")
    assert refusals.of_topics is None


@pytest.mark.parametrize("given", [{}, {"orderly": True}, {"model": "broadcasting"}], ids=str)
async def test_consumer_rejected_after_its_start_reports_it(
    given: dict[str, Any], broker: ScriptedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.script[codes.PULL_MESSAGE] = refusing(codes.NO_PERMISSION)
    push = consumer(broker, rebalance_interval=0.02, offset_folder=tmp_path, **given)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        await until(lambda: all(queue.refusal for queue in push._member.owned.values()), "all rejections")
        assert push.refusal is not None and push.refusal.code == codes.NO_PERMISSION
        activity = push.activity()
        assert "scripted refusal" in activity.refusal and not activity.paused
        await until(lambda: reports(caplog), "the log line")
        broker.script[codes.PULL_MESSAGE] = lambda command: broker.pull(command, wait=False)
        await until(lambda: push.refusal is None, "the pulls after it")
        assert push.activity().refusal == ""
    assert len(reports(caplog)) == 1


async def test_topic_that_is_rejected_is_reported_while_queues_of_another_are_held(broker: ScriptedBroker) -> None:
    push = consumer(broker, rebalance_interval=0.02)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert push.assignment() == [Q0, Q1] and push.refusal is None
        broker.on_loop(lambda: broker.topics.add("U"))
        broker.script[codes.GET_CONSUMER_LIST_BY_GROUP] = refusing(codes.NO_PERMISSION)
        push.subscribe("U", "*", lambda message: None)
        await until(lambda: push.refusal is not None, "the rejection")
        assert push.assignment() == [Q0, Q1]
        del broker.script[codes.GET_CONSUMER_LIST_BY_GROUP]
        await until(lambda: push.refusal is None, "the next round")
