"""Routes, cluster information and the orders that change them."""

from __future__ import annotations

import json

import pytest

from bolide.remoting import codes
from bolide.remoting.bodies import decode_body, encode_body
from bolide.remoting.bodies.route import ClusterInfo, GetBrokerMemberGroupResponseBody, QueueData, TopicRouteData
from bolide.remoting.command import make_request
from bolide.remoting.headers import decode_header
from bolide.remoting.headers.kv import PutKVConfigRequestHeader
from bolide.remoting.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    RegisterTopicRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from tests.namesrv.peer import FakeBroker, Peer, World


def two_brokers(**options: object) -> tuple[World, FakeBroker, FakeBroker]:
    world = World(**options)
    first = FakeBroker(world).topic("T", read_queue_nums=4, write_queue_nums=4).topic("A")
    second = FakeBroker(world, "broker-b", addr="10.0.0.2:10911").topic("T", read_queue_nums=2, write_queue_nums=2)
    first.register()
    second.register()
    return world, first, second


def route(peer: Peer, topic: str, **options: object) -> TopicRouteData:
    header = GetRouteInfoRequestHeader(topic=topic, **options)  # type: ignore[arg-type] # fields of the header
    return decode_body(peer.ask(codes.GET_ROUTEINFO_BY_TOPIC, header).body, TopicRouteData)


@pytest.mark.parametrize("version", [0, 399, 407, 513])
def test_a_route_is_strict_json_for_every_version(version: int) -> None:
    world, _, _ = two_brokers()
    response = world.peer().ask(codes.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic="T"), version=version)
    found = json.loads(response.body)
    assert found == {
        "brokerDatas": [
            {
                "brokerAddrs": {"0": "10.0.0.1:10911"},
                "brokerName": "broker-a",
                "cluster": "c",
                "enableActingMaster": False,
            },
            {
                "brokerAddrs": {"0": "10.0.0.2:10911"},
                "brokerName": "broker-b",
                "cluster": "c",
                "enableActingMaster": False,
            },
        ],
        "filterServerTable": {},
        "queueDatas": [
            {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4},
            {"brokerName": "broker-b", "perm": 6, "readQueueNums": 2, "topicSysFlag": 0, "writeQueueNums": 2},
        ],
    }


def test_an_unknown_topic_has_no_route() -> None:
    world, _, _ = two_brokers()
    header = GetRouteInfoRequestHeader(topic="nowhere")
    response = world.peer().ask(codes.GET_ROUTEINFO_BY_TOPIC, header, expect=codes.TOPIC_NOT_EXIST)
    assert response.remark == "No topic route info in name server for the topic: nowhere"


@pytest.mark.parametrize(("wait", "expected"), [(True, codes.SYSTEM_ERROR), (False, codes.SUCCESS)])
def test_routes_may_wait_until_all_brokers_have_registered(wait: bool, expected: int) -> None:
    world, _, _ = two_brokers(need_wait_for_service=wait, wait_seconds_for_service=3)
    header = GetRouteInfoRequestHeader(topic="T")
    world.pass_time(2_999)
    early = world.peer().ask(codes.GET_ROUTEINFO_BY_TOPIC, header, expect=expected)
    assert early.remark == ("name server not ready" if wait else None)
    world.pass_time(1)
    world.peer().ask(codes.GET_ROUTEINFO_BY_TOPIC, header)


def test_filter_servers_stand_in_the_route() -> None:
    _, first, second = two_brokers()
    first.filter_servers = ["f:1"]
    first.register()
    assert route(second, "T").filter_server_table == {"10.0.0.1:10911": ["f:1"]}


def test_order_configuration_only_when_enabled() -> None:
    for enabled in (False, True):
        _, first, _ = two_brokers(order_message_enable=enabled)
        put = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
        first.ask(codes.PUT_KV_CONFIG, put)
        assert route(first, "T").order_topic_conf == ("broker-a:4" if enabled else None)
        assert route(first, "A").order_topic_conf is None


def test_an_acting_master_is_shown_only_when_supported() -> None:
    for supported in (False, True):
        world = World(support_acting_master=supported)
        for number in (2, 1):
            slave = FakeBroker(world, broker_id=number, addr=f"10.0.0.{number}:10911").topic("T")
            slave.register(enable_acting_master=True)
        (broker,) = route(world.peer(), "T").broker_datas
        acting = {0: "10.0.0.1:10911", 2: "10.0.0.2:10911"}
        plain = {1: "10.0.0.1:10911", 2: "10.0.0.2:10911"}
        assert broker.broker_addrs == (acting if supported else plain)
        assert world.server.tables.brokers["broker-a"].broker_addrs == plain


def test_cluster_info() -> None:
    world, _, _ = two_brokers()
    FakeBroker(world, "other", addr="10.1.0.1:10911", cluster="d").topic("T").register()
    info = decode_body(world.peer().ask(codes.GET_BROKER_CLUSTER_INFO).body, ClusterInfo)
    assert info.cluster_addr_table == {"c": ["broker-a", "broker-b"], "d": ["other"]}
    assert info.broker_addr_table["other"].broker_addrs == {0: "10.1.0.1:10911"}


def test_member_group() -> None:
    world, _, _ = two_brokers()
    for name, addrs in (("broker-b", {0: "10.0.0.2:10911"}), ("nobody", {})):
        header = GetBrokerMemberGroupRequestHeader(cluster_name="c", broker_name=name)
        body = decode_body(
            world.peer().ask(codes.GET_BROKER_MEMBER_GROUP, header).body, GetBrokerMemberGroupResponseBody
        )
        assert body.broker_member_group is not None
        assert body.broker_member_group.broker_addrs == addrs


def test_write_permission_is_wiped_added_and_restored_by_a_changed_registration() -> None:
    _, first, second = two_brokers()
    wiped = first.ask(codes.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequestHeader(broker_name="broker-a"))
    assert decode_header(wiped, WipeWritePermOfBrokerResponseHeader).wipe_topic_count == 3

    def perms() -> dict[str, int]:
        return {queue.broker_name: queue.perm for queue in route(second, "T").queue_datas}

    assert perms() == {"broker-a": 4, "broker-b": 6}
    first.register()
    assert perms()["broker-a"] == 4
    first.topic("More").register()
    assert perms()["broker-a"] == 6
    added = first.ask(codes.ADD_WRITE_PERM_OF_BROKER, AddWritePermOfBrokerRequestHeader(broker_name="broker-a"))
    assert decode_header(added, AddWritePermOfBrokerResponseHeader).add_topic_count == 4
    assert route(second, "TBW102").queue_datas[0].perm == 6  # 7 before: inherit is lost, as in Java


def test_a_topic_is_deleted_everywhere_or_in_one_cluster() -> None:
    world, first, _ = two_brokers()
    FakeBroker(world, "other", addr="10.1.0.1:10911", cluster="d").topic("T").register()
    peer = world.peer()
    for cluster, left in (("nowhere", 3), ("d", 2), (None, 0)):
        peer.ask(codes.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequestHeader(topic="T", cluster_name=cluster))
        assert len(world.server.tables.topics.get("T", ())) == left
    peer.ask(codes.DELETE_TOPIC_IN_NAMESRV, DeleteTopicFromNamesrvRequestHeader(topic="T"))
    first.register()
    assert "T" in world.server.tables.topics  # a registration brings it back


def test_topics_may_be_registered_at_known_brokers() -> None:
    world, first, _ = two_brokers()
    body = encode_body(TopicRouteData([QueueData("broker-a", 1, 1, 6)]))
    first.ask(codes.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequestHeader(topic="By-hand"), body)
    assert list(world.server.tables.topics["By-hand"]) == ["broker-a"]
    half = encode_body(TopicRouteData([QueueData("broker-a", 1, 1, 6), QueueData("nobody", 1, 1, 6)]))
    for nothing in (half, b""):
        first.ask(codes.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequestHeader(topic="Nowhere"), nothing)
    assert "Nowhere" not in world.server.tables.topics


def test_a_client_of_a_zone_is_shown_its_own_brokers() -> None:
    world, first, _ = two_brokers()
    tables = world.server.tables
    tables.brokers["broker-a"].zone_name, tables.brokers["broker-b"].zone_name = "East", "west"

    def names(**zone: str) -> tuple[list[str], list[str]]:
        ext = {"topic": "T", **{f"__ZONE_{key}": value for key, value in zone.items()}}
        answer = first.send(make_request(codes.GET_ROUTEINFO_BY_TOPIC, 1, ext))
        assert answer is not None
        route = decode_body(answer.body, TopicRouteData)
        return [b.broker_name for b in route.broker_datas], [q.broker_name for q in route.queue_datas]

    both = (["broker-a", "broker-b"], ["broker-a", "broker-b"])
    assert names(MODE="true", NAME="east") == (["broker-a"], ["broker-a"])
    assert names(MODE="TRUE", NAME="south") == ([], [])
    assert names(MODE="false", NAME="east") == names(NAME="east") == names(MODE="true", NAME=" ") == both
    tables.brokers["broker-b"].broker_addrs = {1: "127.0.0.1:9"}  # no master: nearness gives way
    assert names(MODE="true", NAME="east") == both
