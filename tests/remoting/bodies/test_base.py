"""JSON bodies against what the two releases write and read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bolide.remoting.bodies import clients, groups, locks, offsets, query, replication, route, running, stats, topics
from bolide.remoting.bodies.base import Body, MessageQueue, decode_body, encode_body
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.errors import BodyError
from bolide.remoting.json import parse_lenient
from tests.remoting.vectors import vectors

MQ = MessageQueue("T", "b", 1)
BROKER = route.BrokerData("c", "b", {0: "a:1", 1: "a:2"})
BROKER_B = route.BrokerData("", "b", {0: "a:1"})

WRITTEN: dict[str, tuple[type[Body], Body]] = {
    "route": (route.TopicRouteData, route.TopicRouteData([route.QueueData("b")], [BROKER])),
    "cluster": (route.ClusterInfo, route.ClusterInfo({"b2": BROKER_B, "b": BROKER_B}, {"c": ["b"]})),
    "topicstats": (topics.TopicStatsTable, topics.TopicStatsTable({MQ: topics.TopicOffset()})),
    "consumestats": (stats.ConsumeStats, stats.ConsumeStats({MQ: stats.OffsetWrapper()})),
    "reset": (offsets.ResetOffsetBody, offsets.ResetOffsetBody({MQ: 5})),
    "lock": (locks.LockBatchRequestBody, locks.LockBatchRequestBody("g", "", [MQ])),
    "heartbeat": (clients.HeartbeatData, clients.HeartbeatData("c", [clients.ProducerData("pg")])),
    "correction": (offsets.QueryCorrectionOffsetBody, offsets.QueryCorrectionOffsetBody({0: 5, 1: 2**63 - 1})),
    "runninginfo": (
        running.ConsumerRunningInfo,
        running.ConsumerRunningInfo(mq_table={MQ: running.ProcessQueueInfo()}),
    ),
    "clientstatus": (offsets.GetConsumerStatusBody, offsets.GetConsumerStatusBody({MQ: 5}, {"c": {MQ: 5}})),
    "ref-list": (
        route.TopicRouteData,
        route.TopicRouteData(broker_datas=[route.BrokerData(broker_name="b"), route.BrokerData(broker_name="b")]),
    ),
    "pretty-offset": (
        offsets.ConsumerOffsetSerializeWrapper,
        offsets.ConsumerOffsetSerializeWrapper({"T@g": {0: 12, 1: 7}}),
    ),
    "pretty-delay": (offsets.DelayOffsetSerializeWrapper, offsets.DelayOffsetSerializeWrapper({1: 12, 18: 7})),
    "pretty-topics": (
        topics.TopicConfigSerializeWrapper,
        topics.TopicConfigSerializeWrapper({"T": topics.TopicConfig("T")}),
    ),
    "subgroup": (groups.SubscriptionGroupConfig, groups.SubscriptionGroupConfig()),
    "strict-route": (
        route.TopicRouteData,
        route.TopicRouteData(broker_datas=[route.BrokerData(broker_name="b中", broker_addrs={0: "a:1"})]),
    ),
}


def texts() -> list[Any]:
    return [
        (v["what"], release, v[release])
        for v in vectors("json_written")
        for release in ("5.5.0", "4.9.7")
        if release in v
    ]


@pytest.mark.parametrize(("what", "release", "text"), texts())
def test_bodies_of_java_are_decoded(what: str, release: str, text: str) -> None:
    kind, expected = WRITTEN[what]
    assert decode_body(text.encode(), kind) == expected


@pytest.mark.parametrize(("what", "release", "text"), [entry for entry in texts() if entry[1] == "5.5.0"])
def test_encoded_bodies_match_java(what: str, release: str, text: str) -> None:
    """Bolide writes every field that Java writes, with its value. (Java leaves null texts out, Bolide's are empty.)"""
    kind, body = WRITTEN[what]
    ours = parse_lenient(encode_body(body))
    unknown = {"groupTopicMap", "pullOffsetTable"} if what == "pretty-offset" else set()
    assert_within({name: value for name, value in parse_lenient(text).items() if name not in unknown}, ours)
    assert decode_body(encode_body(body), kind) == body


def assert_within(java: Any, ours: Any) -> None:
    if isinstance(java, dict):
        for name, value in java.items():
            assert_within(value, ours[name])
    elif isinstance(java, list):
        for theirs, mine in zip(java, ours, strict=True):
            assert_within(theirs, mine)
    else:
        assert java == ours


KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        route.BrokerData, topics.TopicStatsTable, offsets.ResetOffsetBody, running.ConsumerRunningInfo,
        stats.ConsumeStats, offsets.GetConsumerStatusBody, offsets.QueryCorrectionOffsetBody,
        clients.HeartbeatData, route.TopicRouteData,
        route.ClusterInfo, DataVersion, locks.LockBatchRequestBody, topics.TopicConfigSerializeWrapper,
    )
}  # fmt: skip


@pytest.mark.parametrize("vector", vectors("json_read"))
def test_body_accepted_by_a_release_is_decoded(vector: dict[str, str]) -> None:
    kind = KINDS[vector["body"]]
    if "accepted" in (vector["5.5.0"], vector["4.9.7"]):
        assert isinstance(decode_body(vector["input"].encode(), kind), kind)
    else:
        with pytest.raises(BodyError):
            decode_body(vector["input"].encode(), kind)


def test_every_input_of_the_vectors_says_what_it_says() -> None:
    accepted = [v for v in vectors("json_read") if "accepted" in (v["5.5.0"], v["4.9.7"])]
    by_input = {(v["body"], v["input"]): decode_body(v["input"].encode(), KINDS[v["body"]]) for v in accepted}
    for (name, _), body in by_input.items():
        if name == "ResetOffsetBody":
            assert body == offsets.ResetOffsetBody({MQ: 5})
        if name == "TopicStatsTable":
            assert body.offset_table[MQ].max_offset == 5
    assert any(body.cluster == "" and body.broker_name == "5" for (n, _), body in by_input.items() if n == "BrokerData")
    assert {body.counter for (name, _), body in by_input.items() if name == "DataVersion"} == {5}


def test_enums_by_name_case_ordinal_and_unknown() -> None:
    text = (
        '{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":"consume_passively","messageModel":1,'
        '"consumeFromWhere":"NOPE","subscriptionDataSet":[{"topic":"T","subVersion":"12","codeSet":["5"]}]}]}'
    )
    (consumer,) = decode_body(text.encode(), clients.HeartbeatData).consumer_data_set
    assert consumer.consume_type is clients.ConsumeType.CONSUME_PASSIVELY
    assert consumer.message_model is clients.MessageModel.CLUSTERING
    assert consumer.consume_from_where is None
    assert consumer.subscription_data_set[0].sub_version == 12
    assert consumer.subscription_data_set[0].code_set == [5]
    far = text.replace('"messageModel":1', '"messageModel":9')
    assert decode_body(far.encode(), clients.HeartbeatData).consumer_data_set[0].message_model is None


@pytest.mark.parametrize(
    "text",
    ["null", "5", '"x"', "[]", '{"queueDatas":{}}', '{"queueDatas":[5]}', '{"queueDatas":[{"perm":"many"}]}',
     '{"queueDatas":[{"perm":3000000000}]}', '{"queueDatas":[null]}', '{"brokerDatas":[{"$ref":"$.nowhere"}]}',
     '{"brokerDatas":[{"brokerAddrs":[1]}]}', "[" * 100_000, '{"a":' * 100_000],
)  # fmt: skip
def test_body_rejected_by_both_releases_is_rejected(text: str) -> None:
    with pytest.raises(BodyError):
        decode_body(text.encode(), route.TopicRouteData)


def test_null_and_empty_texts_keep_the_default() -> None:
    body = decode_body(b'{"topicName":null,"perm":null,"order":"","readQueueNums":""}', topics.TopicConfig)
    assert body == topics.TopicConfig()


def test_references_that_multiply_are_fitted_once() -> None:
    inner = ",".join(['{"consumeTps":1}'] + ['{"$ref":"$.consumeStatsList[0].g[0]"}'] * 5000)
    lists = '{"consumeStatsList":[{"g":[' + inner + "]}" + ',{"$ref":"$.consumeStatsList[0]"}' * 5000 + "]}"
    body = decode_body(lists.encode(), stats.ConsumeStatsList)
    assert len(body.consume_stats_list) == 5001
    assert body.consume_stats_list[5000] is body.consume_stats_list[0]
    assert len(body.consume_stats_list[0]["g"]) == 5001


def test_keys_are_quoted_or_objects_and_nulls_left_out() -> None:
    assert (
        encode_body(offsets.ResetOffsetBody({MQ: 5}))
        == b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:5}}'
    )
    addresses = encode_body(BROKER)
    assert json.loads(addresses) == {
        "brokerAddrs": {"0": "a:1", "1": "a:2"}, "brokerName": "b", "cluster": "c", "enableActingMaster": False,
    }  # fmt: skip
    assert encode_body(query.QueryConsumeQueueResponseBody()) == b'{"maxQueueIndex":0,"minQueueIndex":0,"queueData":[]}'
    assert encode_body(running.ConsumerRunningInfo())[:15] == b'{"mqPopTable":{'


ALL = [
    clients.ConsumerConnection(
        [clients.Connection("c", "1.2.3.4:5", "JAVA", 513)], {"T": clients.SubscriptionData("T")}
    ),
    clients.ProducerTableInfo({"pg": [clients.ProducerInfo("c", "1.2.3.4:5", "GO", 1, 2)]}),
    clients.CheckClientRequestBody("c", "g", clients.SubscriptionData("T", "a > 1", expression_type="SQL92")),
    groups.SubscriptionGroupWrapper({"g": groups.SubscriptionGroupConfig("g", attributes={"a": "b"})}, {"g": {"T": 1}}),
    locks.LockBatchResponseBody([MQ]),
    query.QueryAssignmentResponseBody([query.MessageQueueAssignment(MQ)]),
    query.QueryConsumeQueueResponseBody(clients.SubscriptionData("T"), None, [query.ConsumeQueueData(1, 2, 3)], 4, 5),
    replication.HARuntimeInfo(True, 5, 1, [replication.HAConnectionRuntimeInfo("a:1", 5)]),
    running.ConsumeMessageDirectlyResult(consume_result=running.CMResult.CR_LATER, remark="r"),
    stats.ConsumeStatsList([{"g": [stats.ConsumeStats({MQ: stats.OffsetWrapper(1, 2, 3, 4)}, 1.5)]}], "a:1", 3, 4),
    stats.QueryConsumeTimeSpanBody([stats.QueueTimeSpan(MQ, 1, 2, 3, 4)]),
    topics.TopicConfig("T", 1, 2, 3, topics.TopicFilterType.MULTI_TAG, 4, True, {"+a": "b"}),
]


@pytest.mark.parametrize("body", ALL, ids=lambda body: type(body).__name__)
def test_encoded_body_decodes_unchanged(body: Body) -> None:
    assert decode_body(encode_body(body), type(body)) == body


def test_a_null_in_a_map_counts_as_absent() -> None:
    body = decode_body(b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"0":null,"1":"a:1"}}]}', route.TopicRouteData)
    assert body.broker_datas[0].broker_addrs == {1: "a:1"}
    with pytest.raises(BodyError, match="a key that is null"):
        decode_body(b'{"brokerDatas":[{"brokerAddrs":{"":"a:1"}}]}', route.TopicRouteData)
