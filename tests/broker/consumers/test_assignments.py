"""Queues shared out by the broker, and the modes of requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.consumers.assignments import ROUTE_WAIT_MS, AssignmentService, avg, avg_by_circle
from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Hold, Outcome
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.tables.clients import Client
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue
from bolide.remoting.bodies.clients import ConsumerData
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, Parts, reply_of


class Assigning(Parts):
    """The parts with two consumers of group g and a topic of five queues."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = AssignmentService(self.options, self.topics, self.groups, self.clients, self.effects)
        self.topics.put(TopicConfig("T", 5, 5), NOW)
        self.groups.put(SubscriptionGroupConfig("g"), NOW)
        for number, name in enumerate(("b", "a")):
            client = Client(Channel(20 + number, PEER, "10.1.2.3:1"), name, 0, 513, NOW)
            self.clients.register_consumer(ConsumerData("g"), client)
        self.asked: list[str] = []

    def with_name_server(self) -> None:
        self.service = AssignmentService(
            self.options, self.topics, self.groups, self.clients, self.effects, self.asked.append
        )

    def query(self, now: int = NOW, **fields: Any) -> Outcome:
        body = {
            "topic": "T",
            "consumerGroup": "g",
            "clientId": "a",
            "strategyName": "AVG",
            "messageModel": "CLUSTERING",
            **fields,
        }
        command = make_request(codes.QUERY_ASSIGNMENT, 1, body=json.dumps(body).encode())
        return self.service.on_query(self.channel, command, now)

    def ask(self, code: int, **body: Any) -> Command:
        return reply_of(
            self.service.handlers()[code](self.channel, make_request(code, 1, body=json.dumps(body).encode()), NOW)
        )


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Assigning]:
    made = Assigning(tmp_path)
    yield made
    made.close()


def queues(outcome: Outcome) -> list[tuple[str, int]] | None:
    """Broker and number of the assigned queues, or None for null; all of them are to be pulled."""
    answer = reply_of(outcome)
    assert answer.code == 0
    given = json.loads(answer.body)["messageQueueAssignments"]
    if given is None:
        return None
    assert {item["mode"] for item in given} <= {"PULL"}
    return [(item["messageQueue"]["brokerName"], item["messageQueue"]["queueId"]) for item in given]


def test_alone_the_broker_gives_its_own_queues(parts: Assigning) -> None:
    assert queues(parts.query()) == [("broker-a", 0), ("broker-a", 1), ("broker-a", 2)]
    assert queues(parts.query(clientId="b")) == [("broker-a", 3), ("broker-a", 4)]
    circle = parts.query(clientId="b", strategyName="AVG_BY_CIRCLE")
    assert queues(circle) == [("broker-a", 1), ("broker-a", 3)]
    assert queues(parts.query(clientId="stranger")) == []
    assert len(queues(parts.query(messageModel="BROADCASTING")) or []) == 5


@pytest.mark.parametrize(
    "fields", [{"topic": "None"}, {"consumerGroup": "none"}, {"strategyName": "MINE"}, {"clientId": ""}]
)
def test_null_lets_the_client_keep_what_it_has(parts: Assigning, fields: dict[str, Any]) -> None:
    assert queues(parts.query(**fields)) is None


def test_a_topic_without_read_permission_has_no_queues(parts: Assigning) -> None:
    parts.topics.put(TopicConfig("T", 5, 5, 2), NOW)
    assert queues(parts.query()) is None, "a client keeps what it has"
    assert queues(parts.query(messageModel="BROADCASTING")) == []


def test_the_route_of_all_brokers_is_waited_for(parts: Assigning) -> None:
    parts.with_name_server()
    outcome = parts.query()
    assert isinstance(outcome, Hold) and parts.asked == ["T"]
    assert outcome.waiter.deadline == NOW + ROUTE_WAIT_MS
    table = WaitTable(10)
    table.add(outcome.waiter)
    assert table.behind(parts.store.max_queue_offset) == []
    parts.service.route_arrived("T", [MessageQueue("T", name, 0) for name in ("z", "broker-a", "m")], NOW + 5)
    (key,) = parts.effects.releases
    assert table.release(key) == [outcome.waiter]
    assert queues(outcome.waiter.again(NOW + 5)) == [("broker-a", 0), ("m", 0)]
    assert queues(parts.query(NOW + 30_005, clientId="b")) == [("z", 0)] and parts.asked == ["T"]
    assert queues(parts.query(NOW + 30_006, clientId="b")) == [("z", 0)] and parts.asked == ["T", "T"]
    parts.service.route_arrived("T", None, NOW + 40_000)
    assert queues(parts.query(NOW + 40_000, clientId="b")) == [("z", 0)]


def test_no_name_server_answers(parts: Assigning) -> None:
    parts.with_name_server()
    outcome = parts.query()
    assert isinstance(outcome, Hold)
    parts.service.route_arrived("T", None, NOW)
    assert queues(outcome.waiter.again(NOW)) is None
    assert isinstance(parts.query(NOW + 1), Hold) and parts.asked == ["T", "T"]


@pytest.mark.parametrize("count", range(1, 6))
@pytest.mark.parametrize("strategy", [avg, avg_by_circle])
def test_every_queue_has_one_reader(strategy: Any, count: int) -> None:
    members = [str(number) for number in range(count)]
    all_queues = [MessageQueue("T", "b", number) for number in range(4)]
    given = [queue for member in members for queue in strategy(member, all_queues, members)]
    assert sorted(given) == all_queues


def test_modes(parts: Assigning) -> None:
    def set_mode(**more: Any) -> int:
        return parts.ask(
            codes.SET_MESSAGE_REQUEST_MODE, **{"topic": "T", "consumerGroup": "g", "mode": "PULL", **more}
        ).code

    assert set_mode(topic="%RETRY%g") == codes.NO_PERMISSION
    assert set_mode(topic="None") == codes.TOPIC_NOT_EXIST
    assert set_mode(mode="POP") == codes.INVALID_PARAMETER
    assert parts.effects.persists.isdisjoint({"messageRequestMode"})
    assert set_mode(popShareQueueNum=2) == 0
    assert "messageRequestMode" in parts.effects.persists
    entry = {"consumerGroup": "g", "mode": "PULL", "popShareQueueNum": 2, "topic": "T"}
    assert json.loads(parts.ask(codes.GET_ALL_MESSAGE_REQUEST_MODE).body) == {
        "messageRequestModeMap": {"T": {"g": entry}}
    }
    again = AssignmentService(parts.options, parts.topics, parts.groups, parts.clients, parts.effects)
    again.load(parts.service.encode())
    assert again.encode() == parts.service.encode()


def test_modes_have_a_limit(tmp_path: Path) -> None:
    parts = Assigning(tmp_path, max_groups=10)

    def set_mode(group: str) -> int:
        parts.groups.table.setdefault(group, SubscriptionGroupConfig(group))
        return parts.ask(codes.SET_MESSAGE_REQUEST_MODE, topic="T", consumerGroup=group, mode="PULL").code

    assert [set_mode(f"g{number}") for number in range(11)] == [0] * 10 + [codes.SYSTEM_ERROR]
    assert set_mode("g3") == 0
    parts.close()
