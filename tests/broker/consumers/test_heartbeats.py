"""Heartbeats: what one brings about, who is told of a change, and who is thrown out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bolide.broker.consumers.heartbeats import HeartbeatService
from bolide.broker.core.channel import Channel
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.groups import SubscriptionGroupConfig
from bolide.broker.tables.topic_config import TopicConfig
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from tests.broker.parts import NOW, PEER, Parts, reply_of


class Beating(Parts):
    """The parts with heartbeats."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        super().__init__(folder, **settings)
        self.service = HeartbeatService(
            self.options, self.effects, self.clients, self.topics, self.groups, self.filters
        )
        self.other = Channel(2, PEER, "10.1.2.3:4568", 10911)

    def beat(self, client: str = "c", channel: Channel | None = None, topic: str = "T", **data: Any) -> Command:
        consumer = {
            "groupName": "g",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": data.pop("model", "CLUSTERING"),
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "subscriptionDataSet": [{"topic": topic, "subString": "*", "subVersion": 1}] if topic else [],
            "unitMode": data.pop("unit", False),
        }
        body = {"clientID": client, "consumerDataSet": [consumer], "producerDataSet": [{"groupName": "p"}], **data}
        command = make_request(codes.HEART_BEAT, 1, body=json.dumps(body).encode())
        return reply_of(self.service.on_heart_beat(channel or self.channel, command, NOW))

    def ask(self, code: int, channel: Channel | None = None, **fields: str) -> Command:
        return reply_of(self.service.handlers()[code](channel or self.channel, make_request(code, 1, fields), NOW))

    def told(self) -> list[int]:
        """Ids of the channels told since the last call that the group changed."""
        sends, self.effects.sends = self.effects.sends, []
        for _, command in sends:
            assert command.code == codes.NOTIFY_CONSUMER_IDS_CHANGED and command.is_oneway
            assert command.ext() == {"consumerGroup": "g"}
        return [channel.id for channel, _ in sends]


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Beating]:
    made = Beating(tmp_path)
    yield made
    made.close()


def test_a_heartbeat_makes_the_group_and_its_retry_topic(parts: Beating) -> None:
    answer = parts.beat()
    assert answer.code == codes.SUCCESS
    assert answer.ext() == {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    assert parts.groups.get("g") is not None
    retry = parts.topics.get("%RETRY%g")
    assert retry is not None and (retry.read_queue_nums, retry.perm, retry.order) == (1, 6, False)
    assert parts.channel.client_id == "c"
    assert parts.clients.producer_by_client_id("c") is not None
    listed = parts.ask(codes.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g")
    assert json.loads(listed.body)["consumerIdList"] == ["c"]


def test_producer_groups_are_bounded_too(tmp_path: Path) -> None:
    parts = Beating(tmp_path, max_groups=30)
    names = [{"groupName": f"p{number}"} for number in range(31)]
    with pytest.raises(Refused, match=r"producer group\[p30\] cannot be registered: maxGroups is 30"):
        parts.beat(consumerDataSet=[], producerDataSet=names)
    assert parts.beat(consumerDataSet=[], producerDataSet=names[:30]).code == codes.SUCCESS
    parts.close()


def test_a_fingerprint_that_stays_changes_nothing(parts: Beating) -> None:
    parts.beat(heartbeatFingerprint=7)
    parts.told()
    assert parts.beat(topic="", heartbeatFingerprint=7, withoutSub=True).ext()["IS_SUB_CHANGE"] == "false"
    assert parts.clients.subscription("g", "T") is not None and parts.told() == []
    assert parts.beat(heartbeatFingerprint=8).ext()["IS_SUB_CHANGE"] == "true"


def test_the_retry_topic_of_a_group_in_order_is_in_order(parts: Beating) -> None:
    parts.topics.put(TopicConfig("T", 1, 1, order=True), NOW)
    group = SubscriptionGroupConfig("g")
    group.retry_queue_nums = 3
    parts.groups.put(group, NOW)
    parts.beat(unit=True)
    retry = parts.topics.get("%RETRY%g")
    assert retry is not None and (retry.order, retry.write_queue_nums, retry.topic_sys_flag) == (True, 3, 2)
    parts.beat(topic="", heartbeatFingerprint=7, withoutSub=True)  # says nothing of topics
    assert retry.order
    parts.topics.put(TopicConfig("T", 1, 1), NOW)
    parts.beat()
    assert not retry.order


def test_a_group_that_may_not_be_made_is_passed_over(tmp_path: Path) -> None:
    parts = Beating(tmp_path, auto_create_subscription_group=False)
    assert parts.beat().code == codes.SUCCESS
    assert parts.clients.consumer_group("g") is None and parts.topics.get("%RETRY%g") is None
    parts.close()


def test_everyone_is_told_of_a_newcomer_and_of_a_leave(parts: Beating) -> None:
    parts.beat()
    assert parts.told() == [1]
    parts.beat("d", parts.other)
    assert parts.told() == [1, 2]
    parts.beat()
    assert parts.told() == []
    parts.ask(codes.UNREGISTER_CLIENT, parts.other, clientID="d", consumerGroup="g", producerGroup="p")
    assert parts.told() == [1]
    assert parts.clients.producer_by_client_id("d") is None
    parts.beat("d", parts.other)
    parts.told()
    parts.service.channel_closed(parts.other, NOW)
    assert parts.told() == [1]


@pytest.mark.parametrize("how", ["broadcasting", "group", "broker"])
def test_notification_is_off_by_setting_or_broadcasting(tmp_path: Path, how: str) -> None:
    parts = Beating(tmp_path, notify_consumer_ids_changed_enable=how != "broker")
    group = SubscriptionGroupConfig("g")
    group.notify_consumer_ids_changed_enable = how != "group"
    parts.groups.put(group, NOW)
    parts.beat(model="BROADCASTING" if how == "broadcasting" else "CLUSTERING")
    parts.beat("d", parts.other, model="BROADCASTING" if how == "broadcasting" else "CLUSTERING")
    assert parts.told() == []
    parts.close()


def test_a_silent_channel_is_closed(parts: Beating) -> None:
    parts.beat()
    parts.service.tick(NOW + 120_000, 1)
    assert parts.effects.closes == []
    parts.service.tick(NOW + 120_001, 1)
    assert parts.effects.closes == [parts.channel]
    assert parts.service.due(NOW) == NOW + 130_001


def test_the_list_of_nobody(parts: Beating) -> None:
    assert parts.ask(codes.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g").code == codes.SYSTEM_ERROR


def test_a_heartbeat_that_is_too_much_registers_nothing(parts: Beating) -> None:
    many = [{"groupName": f"p{number}"} for number in range(1_000)]
    with pytest.raises(Refused, match="1001 groups is too much"):
        parts.beat(producerDataSet=many)
    with pytest.raises(Refused, match="bytes is too much"):
        parts.beat(client="c" * (1 << 20))
    assert not parts.clients.producer_groups and not parts.clients.consumer_groups
    parts.beat(producerDataSet=many[1:])
    assert len(parts.clients.producer_groups) == 999


def test_subscriptions_of_all_groups_have_a_limit(parts: Beating) -> None:
    parts.service.configure(BrokerOptions.of(max_subscriptions=2))

    def beat(group: str, *tags: str, channel: Channel | None = None, topics: int = 1) -> None:
        listed = [
            {"topic": f"T{number}", "subString": "*", "tagsSet": tags, "subVersion": time.monotonic_ns()}
            for number in range(topics)
        ]
        parts.beat(channel=channel, consumerDataSet=[{"groupName": group, "subscriptionDataSet": listed}])

    beat("g1")
    beat("g2")
    for _ in range(2):
        with pytest.raises(Refused, match="maxSubscriptions is 2 for all groups"):
            beat("g3")
    with pytest.raises(Refused, match="maxSubscriptions"):
        beat("g1", topics=2)
    with pytest.raises(Refused, match="maxSubscriptions"):
        beat("g1", "a" * 1024)
    beat("g1", "a")
    parts.ask(codes.UNREGISTER_CLIENT, clientID="c", consumerGroup="g2")
    beat("g1", topics=2)
    parts.service.channel_closed(parts.channel, NOW)
    assert parts.clients.subscribed == 0
    beat("g3", "a" * 1024)
    assert parts.clients.subscribed == 2
