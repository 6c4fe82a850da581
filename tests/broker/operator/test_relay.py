"""Questions passed on to a consumer: what it is asked, and what comes of its answer or silence."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.broker.core.outcome import Ask, Outcome
from bolide.broker.operator.relay import ANSWER_TIMEOUT_MS, RelayService
from bolide.broker.tables.clients import Client
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.remoting import codes
from bolide.remoting.bodies.clients import ConsumerData
from bolide.remoting.command import make_request, make_response
from tests.broker.parts import NOW, Parts, reply_of, send_request


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    made = Parts(tmp_path)
    made.topics.put(TopicConfig("T", 1, 1, topic_sys_flag=1), NOW)
    config = SubscriptionGroupConfig("g")
    config.group_sys_flag = 3
    made.groups.put(config, NOW)
    yield made
    made.close()


def connect(parts: Parts, version: int = codes.VERSION_5_5_0) -> None:
    parts.clients.register_consumer(ConsumerData("g"), Client(parts.channel, "c", codes.JAVA, version, NOW))


def ask(parts: Parts, code: int, **fields: str) -> Outcome:
    relay = RelayService("broker-a", parts.clients, parts.store, parts.topics, parts.groups)
    command = make_request(code, 1, {"consumerGroup": "g", "clientId": "c", **fields})
    return relay.handlers()[code](parts.channel, command, NOW)


def test_a_message_to_be_consumed_at_once_goes_to_its_client_with_what_the_broker_knows(parts: Parts) -> None:
    connect(parts)
    message_id = parts.answer(send_request()).ext()["msgId"]
    outcome = ask(parts, codes.CONSUME_MESSAGE_DIRECTLY, msgId=message_id, topic="T")
    assert isinstance(outcome, Ask)
    assert (outcome.channel, outcome.timeout) == (parts.channel, ANSWER_TIMEOUT_MS)
    asked = outcome.command
    assert asked.body == parts.store.record_bytes(0)
    assert {name: asked.ext()[name] for name in ("brokerName", "topicSysFlag", "groupSysFlag", "consumerGroup")} == {
        "brokerName": "broker-a",
        "topicSysFlag": "1",
        "groupSysFlag": "3",
        "consumerGroup": "g",
    }
    answer = reply_of(outcome.then(make_response(asked, codes.SUCCESS, "fine", body=b"{}"), NOW))
    assert (answer.code, answer.remark, answer.body) == (codes.SUCCESS, "fine", b"{}")
    assert reply_of(outcome.then(None, NOW)).code == codes.CONSUME_MSG_TIMEOUT


def test_whom_nobody_can_ask(parts: Parts) -> None:
    assert reply_of(ask(parts, codes.GET_CONSUMER_RUNNING_INFO)).code == codes.SYSTEM_ERROR
    connect(parts, version=58)
    assert reply_of(ask(parts, codes.GET_CONSUMER_RUNNING_INFO)).code == codes.SYSTEM_ERROR
    connect(parts)
    assert isinstance(ask(parts, codes.GET_CONSUMER_RUNNING_INFO), Ask)
    gone = "7F00000100002A9F" + f"{1 << 30:016X}"
    assert reply_of(ask(parts, codes.CONSUME_MESSAGE_DIRECTLY, msgId=gone)).code == codes.SYSTEM_ERROR


def test_the_offsets_of_a_groups_clients(parts: Parts) -> None:
    code = codes.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
    alone = reply_of(ask(parts, code, topic="T", group="g"))
    assert (alone.code, alone.remark) == (1, "No Any Consumer online in the consumer group: [g]")
    connect(parts)
    outcome = ask(parts, code, topic="T", group="g")
    assert isinstance(outcome, Ask)
    told = make_response(outcome.command, codes.SUCCESS, body=b'{"messageQueueTable":{"a":3}}')
    assert json.loads(reply_of(outcome.then(told, NOW)).body) == {
        "consumerTable": {"c": {"a": 3}},
        "messageQueueTable": {},
    }
    # What the field calls an address is a client id.
    assert isinstance(ask(parts, code, topic="T", group="g", clientAddr="c"), Ask)
    assert json.loads(reply_of(ask(parts, code, topic="T", group="g", clientAddr="d")).body) == {
        "consumerTable": {},
        "messageQueueTable": {},
    }
    connect(parts, version=27)
    assert reply_of(ask(parts, code, topic="T", group="g")).code == codes.SYSTEM_ERROR
