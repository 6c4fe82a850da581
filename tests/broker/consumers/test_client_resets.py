"""Resets told to clients (useServerSideResetOffset=false): who is told what, and when nobody is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.consumers.client_resets import ClientResets
from bolide.broker.consumers.offsets import OffsetService
from bolide.broker.core.channel import Channel
from bolide.broker.tables.clients import Client
from bolide.broker.tables.topic_config import TopicConfig
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_body
from bolide.remoting.bodies.clients import ConsumerData
from bolide.remoting.bodies.offsets import ResetOffsetBody
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, Parts, reply_of, send_request

CPP = 1


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    made.topics.put(TopicConfig("T", 2, 2), NOW)
    for number in range(4):
        made.answer(send_request(), NOW + 1000 * number)
    for queue_id, offset in enumerate((3, 0)):
        made.offsets.commit("g", "T", queue_id, offset, NOW)
    yield made
    made.close()


def connect(parts: Parts, version: int = codes.VERSION_5_5_0) -> Channel:
    channel = Channel(7, PEER, "10.1.2.3:7", 10911)
    parts.clients.register_consumer(ConsumerData("g"), Client(channel, "c", codes.JAVA, version, NOW))
    return channel


def reset(
    parts: Parts, language: int = codes.JAVA, force: str = "true", timestamp: int = -1, topic: str = "T"
) -> Command:
    resets = ClientResets("broker-a", parts.store, parts.offsets, parts.topics, parts.clients, parts.effects)
    service = OffsetService(
        parts.options, parts.store, parts.offsets, parts.topics, parts.groups, parts.clients, resets
    )
    ext = {"topic": topic, "group": "g", "timestamp": str(timestamp), "isForce": force}
    command = make_request(codes.INVOKE_BROKER_TO_RESET_OFFSET, 1, ext)
    command.language = language
    return reply_of(service.handlers()[command.code](parts.channel, command, NOW))


def told(parts: Parts) -> list[Command]:
    return [command for _, command in parts.effects.take().sends]


def table(body: bytes) -> dict[int, int]:
    return {
        queue.queue_id: offset
        for queue, offset in decode_body(body, ResetOffsetBody).offset_table.items()
        if queue == MessageQueue("T", "broker-a", queue.queue_id)
    }


def test_every_client_is_told_and_nothing_is_kept_here(parts: Parts) -> None:
    connect(parts)
    parts.effects.take()
    answer = reset(parts)
    assert answer.code == codes.SUCCESS
    assert table(answer.body) == {0: 4, 1: 0}
    (request,) = told(parts)
    assert (request.code, request.is_oneway) == (codes.RESET_CONSUMER_CLIENT_OFFSET, True)
    assert request.ext() == {"group": "g", "topic": "T", "timestamp": "-1", "isForce": "false", "queueId": "-1"}
    assert table(request.body) == {0: 4, 1: 0}
    assert parts.offsets.query("g", "T", 0) == 3
    assert parts.offsets.take_reset("g", "T", 0) == -1


def test_without_force_nobody_goes_forward(parts: Parts) -> None:
    connect(parts)
    assert table(reset(parts, force="false").body) == {0: 3, 1: 0}
    assert table(reset(parts, force="false", timestamp=NOW + 1500).body) == {0: 2, 1: 0}


def test_cpp_gets_a_list(parts: Parts) -> None:
    connect(parts)
    parts.effects.take()
    answer = reset(parts, CPP)
    (request,) = told(parts)
    assert json.loads(request.body)["offsetTable"] == [
        {"brokerName": "broker-a", "offset": 4, "queueId": 0, "topic": "T"},
        {"brokerName": "broker-a", "offset": 0, "queueId": 1, "topic": "T"},
    ]
    assert table(answer.body) == {0: 4, 1: 0}


def test_reset_fails_without_a_capable_consumer(parts: Parts) -> None:
    assert reset(parts).code == codes.CONSUMER_NOT_ONLINE
    assert reset(parts, topic="nothing").code == codes.TOPIC_NOT_EXIST
    connect(parts, version=27)
    assert reset(parts).code == codes.SYSTEM_ERROR
    parts.topics.put(TopicConfig("T", 3, 3), NOW)  # a queue the group has no offset in: to Java it does not exist
    assert reset(parts).code == codes.SYSTEM_ERROR
