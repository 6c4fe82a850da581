"""What one request may list: more is refused before anything of it is done."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.broker.consumers.locks import LockService, QueueLocks
from bolide.broker.operator.config_list import listed_configs
from bolide.broker.refused import Refused
from bolide.broker.tables.request_limits import MAX_BODY, check_body, check_heartbeat, check_listed
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, encode_body
from bolide.remoting.bodies.clients import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from bolide.remoting.bodies.locks import LockBatchRequestBody, UnlockBatchRequestBody
from bolide.remoting.command import Command, make_request
from tests.broker.parts import CHANNEL

BEAT = make_request(codes.HEART_BEAT, 1)


def heartbeat(groups: int = 1, each: int = 1, text: str = "*", kind: str = "TAG", producers: int = 0) -> HeartbeatData:
    listed = [SubscriptionData(topic=f"T{i}", sub_string=text, expression_type=kind) for i in range(each)]
    consumers = [ConsumerData(group_name=f"g{i}", subscription_data_set=listed) for i in range(groups)]
    return HeartbeatData(
        client_id="c", consumer_data_set=consumers, producer_data_set=[ProducerData(f"p{i}") for i in range(producers)]
    )


@pytest.mark.parametrize(
    ("most", "more", "what"),
    [
        ({"groups": 500, "producers": 500}, {"groups": 500, "producers": 501}, "1001 groups"),
        ({"groups": 10, "each": 1000}, {"groups": 11, "each": 1000}, "11000 subscriptions"),
        (
            {"each": 8, "text": "x" * 100, "kind": "SQL92"},
            {"each": 9, "text": "x" * 100, "kind": "SQL92"},
            "900 characters of filters",
        ),
        ({"each": 9, "text": "x" * 100}, None, ""),
    ],
    ids=["groups", "subscriptions", "filters", "tags"],
)
def test_a_heartbeat_has_limits(most: dict[str, Any], more: dict[str, Any] | None, what: str) -> None:
    check_heartbeat(BEAT, heartbeat(**most), 100)
    if more is not None:
        with pytest.raises(Refused, match=f"HEART_BEAT with {what} is too much at once: .* send several requests"):
            check_heartbeat(BEAT, heartbeat(**more), 100)


def test_heartbeat_with_class_filter_is_refused() -> None:
    data = heartbeat(groups=2)
    data.consumer_data_set[1].subscription_data_set = [SubscriptionData(topic="U", class_filter_mode=True)]
    with pytest.raises(
        Refused, match="the subscription to U names a Java class .*: subscribe with an SQL92"
    ) as refused:
        check_heartbeat(BEAT, data, 100)
    assert refused.value.response_code == codes.SYSTEM_ERROR


def test_a_body_has_a_limit() -> None:
    check_body(make_request(codes.LOCK_BATCH_MQ, 1, body=bytes(MAX_BODY)))
    with pytest.raises(Refused, match="LOCK_BATCH_MQ with a body of 1048577 bytes is too much at once"):
        check_body(make_request(codes.LOCK_BATCH_MQ, 1, body=bytes(MAX_BODY + 1)))


def test_a_list_has_a_limit() -> None:
    check_listed(BEAT, 5, 5, "things")
    with pytest.raises(Refused, match="HEART_BEAT with 6 things is too much at once: 5 are allowed"):
        check_listed(BEAT, 6, 5, "things")


@pytest.mark.parametrize("code", [codes.LOCK_BATCH_MQ, codes.UNLOCK_BATCH_MQ])
def test_queues_of_one_request_have_a_limit(code: int) -> None:
    service = LockService(QueueLocks())
    body = LockBatchRequestBody if code == codes.LOCK_BATCH_MQ else UnlockBatchRequestBody

    def ask(count: int) -> None:
        queues = [MessageQueue("", "", number) for number in range(count)]
        service.handlers()[code](CHANNEL, make_request(code, 1, {}, encode_body(body("g", "c", queues))), 0)

    ask(20_000)
    with pytest.raises(Refused, match="20001 queues is too much"):
        ask(20_001)
    with pytest.raises(Refused, match="bytes is too much"):
        ask(40_000)


def test_topics_of_one_list_have_a_limit() -> None:
    def listed(entries: int, padding: int = 0) -> Command:
        body = b'{"topicConfigList":[%b]}' % b",".join([b"{}"] * entries)
        return make_request(codes.UPDATE_AND_CREATE_TOPIC_LIST, 1, {}, body + bytes([32]) * padding)

    assert len(listed_configs(listed(1_000), "topicConfigList")) == 1_000
    with pytest.raises(Refused, match="1001 entries is too much"):
        listed_configs(listed(1_001), "topicConfigList")
    with pytest.raises(Refused, match="bytes is too much"):
        listed_configs(listed(1, MAX_BODY), "topicConfigList")
