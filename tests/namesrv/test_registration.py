"""Brokers come, show that they live, and go."""

from __future__ import annotations

import json

import pytest

from bolide.namesrv.effects import CloseChannel, TellBroker
from bolide.namesrv.tables import Tables
from bolide.remoting import codes
from bolide.remoting.bodies import decode_body, encode_body
from bolide.remoting.bodies.route import QueueData, TopicRouteData
from bolide.remoting.bodies.stats import KVTable
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.command import make_request
from bolide.remoting.headers import decode_header
from bolide.remoting.headers.kv import PutKVConfigRequestHeader
from bolide.remoting.headers.namesrv import (
    BrokerHeartbeatRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
)
from bolide.remoting.register import encode_register_body
from tests.namesrv.peer import FakeBroker, World


def tables(broker: FakeBroker) -> Tables:
    return broker.world.server.tables


def ready(world: World | None = None, **fields: object) -> FakeBroker:
    """A broker with two topics, registered."""
    broker = FakeBroker(world or World(), **fields).topic("T", read_queue_nums=4, write_queue_nums=4)  # type: ignore[arg-type] # fields are those of the constructor
    broker.register()
    return broker


@pytest.mark.parametrize("version", [407, 513])
@pytest.mark.parametrize(("compressed", "said"), [(False, False), (True, True), (True, False)])
def test_topics_of_a_registration_are_known(version: int, compressed: bool, said: bool) -> None:
    broker = FakeBroker(World()).topic("T", read_queue_nums=4, write_queue_nums=3, perm=6, topic_sys_flag=1)
    broker.register(compressed=compressed, say_compressed=said, version=version)
    queue = tables(broker).topics["T"]["broker-a"]
    assert (queue.read_queue_nums, queue.write_queue_nums, queue.perm) == (4, 3, 6)
    assert queue.topic_sys_flag == (0 if compressed else 1)  # the compressed form does not carry it
    assert tables(broker).clusters == {"c": {"broker-a": None}}
    assert tables(broker).brokers["broker-a"].broker_addrs == {0: "10.0.0.1:10911"}


def test_a_broker_of_version_0_registers_no_topics() -> None:
    broker = FakeBroker(World()).topic("T")
    broker.register(version=0)
    assert tables(broker).topics == {}
    assert "broker-a" in tables(broker).brokers


def test_a_wrong_checksum_is_refused() -> None:
    broker = FakeBroker(World()).topic("T")
    broker.register(codes.SYSTEM_ERROR, body_crc32=12345)
    assert not tables(broker).brokers
    broker.register(body_crc32=0)
    broker.register(body_crc32=None)


def test_a_body_that_cannot_be_read_is_refused() -> None:
    broker = FakeBroker(World())
    response = broker.ask(codes.REGISTER_BROKER, broker.header(), b"{]", codes.SYSTEM_ERROR)
    assert "BodyError" in (response.remark or "")
    broker.ask(codes.REGISTER_BROKER, broker.header(compressed=True), b"no zlib", codes.SYSTEM_ERROR)
    assert not tables(broker).brokers


def test_a_first_registration_with_one_topic_is_refused() -> None:
    broker = FakeBroker(World())
    assert len(broker.topics) == 1
    response = broker.register(codes.SYSTEM_ERROR)
    assert str(response.remark).startswith("register broker failed, broker-a must register fully first")
    assert not tables(broker).brokers
    broker.topic("T").register()
    broker.topics = {"New": broker.topics["T"]}
    broker.topics["New"].topic_name = "New"
    broker.data_version = broker.data_version.next(broker.world.now)
    broker.register()  # an increment now
    assert set(tables(broker).topics) == {"TBW102", "T", "New"}


def test_topics_are_taken_only_with_a_new_data_version() -> None:
    broker = ready()
    broker.topics["T"].perm = 4
    broker.register()
    assert tables(broker).topics["T"]["broker-a"].perm == 6
    broker.data_version = broker.data_version.next(broker.world.now)
    broker.register()
    assert tables(broker).topics["T"]["broker-a"].perm == 4


def test_a_topic_nobody_knows_is_taken_without_one() -> None:
    broker = ready()
    tables(broker).drop_topic("T")
    broker.register()
    assert "T" in tables(broker).topics


def test_dropped_topics_stay_unless_told_otherwise() -> None:
    for told in (False, True):
        broker = ready(World(delete_topic_with_broker_registration=told))
        other = ready(broker.world, name="broker-b", addr="10.0.0.2:10911")
        del broker.topics["T"]
        broker.topic("Other").register()
        queues = tables(broker).topics["T"]
        assert ("broker-a" in queues) is not told
        assert other.name in queues


def test_a_slave_is_told_its_master_and_brings_no_topics() -> None:
    master = ready()
    slave = FakeBroker(master.world, broker_id=1, addr="10.0.0.2:10911").topic("Slave").topic("T", perm=2)
    answer = decode_header(slave.register(), RegisterBrokerResponseHeader)
    assert (answer.master_addr, answer.ha_server_addr) == ("10.0.0.1:10911", "10.0.0.1:10912")
    assert "Slave" not in tables(master).topics
    assert tables(master).topics["T"]["broker-a"].perm == 6
    assert decode_header(master.register(), RegisterBrokerResponseHeader).master_addr is None


def test_a_slave_without_a_master_is_told_none() -> None:
    slave = FakeBroker(World(), broker_id=1).topic("T")
    assert decode_header(slave.register(), RegisterBrokerResponseHeader).master_addr is None
    assert not tables(slave).topics  # without enableActingMaster it is an old broker


def test_the_smallest_slave_acts_when_it_may_and_takes_no_sends() -> None:
    world = World()
    first = FakeBroker(world, broker_id=1, addr="10.0.0.2:10911").topic("T", perm=6)
    first.register(enable_acting_master=True)
    assert tables(first).topics["T"]["broker-a"].perm == 4
    second = FakeBroker(world, broker_id=2, addr="10.0.0.3:10911").topic("T2")
    second.register(enable_acting_master=True)
    assert "T2" not in tables(first).topics


def test_a_promoted_slave_has_one_record() -> None:
    master = ready()
    slave = ready(master.world, broker_id=1, addr="10.0.0.2:10911")
    master.close()
    assert tables(master).brokers["broker-a"].broker_addrs == {1: "10.0.0.2:10911"}
    slave.broker_id = 0
    slave.register()
    assert tables(master).brokers["broker-a"].broker_addrs == {0: "10.0.0.2:10911"}


def test_an_id_held_by_a_higher_state_version_is_not_taken_over() -> None:
    held = ready()
    held.data_version = DataVersion(1, 1, state_version=5)
    held.register()
    thief = FakeBroker(held.world, addr="10.0.0.9:10911").topic("Stolen")
    thief.data_version = DataVersion(1, 1, state_version=4)
    thief.register()  # answered with success
    assert tables(held).brokers["broker-a"].broker_addrs == {0: "10.0.0.1:10911"}
    assert "Stolen" not in tables(held).topics
    thief.data_version = DataVersion(1, 1, state_version=5)
    thief.register()
    assert tables(held).brokers["broker-a"].broker_addrs == {0: "10.0.0.9:10911"}


def test_filter_servers_are_kept_until_an_empty_list() -> None:
    broker = FakeBroker(World()).topic("T")
    broker.filter_servers = ["f:1"]
    broker.register()
    assert list(tables(broker).filter_servers.values()) == [["f:1"]]
    broker.filter_servers = []
    broker.register()
    assert not tables(broker).filter_servers


def test_the_answer_brings_the_order_configuration() -> None:
    broker = FakeBroker(World()).topic("T")
    assert broker.register().body == b""
    put = PutKVConfigRequestHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    broker.ask(codes.PUT_KV_CONFIG, put)
    assert decode_body(broker.register().body, KVTable).table == {"T": "broker-a:4"}


def unregister(broker: FakeBroker) -> None:
    header = UnRegisterBrokerRequestHeader(
        broker_name=broker.name, broker_addr=broker.addr, cluster_name=broker.cluster, broker_id=broker.broker_id
    )
    broker.ask(codes.UNREGISTER_BROKER, header)


@pytest.mark.parametrize("leave", [unregister, FakeBroker.close])
def test_the_last_address_takes_the_broker_and_its_topics_along(leave: object) -> None:
    broker = ready()
    other = ready(broker.world, name="broker-b", addr="10.0.0.3:10911", cluster="d")
    other.topic("Only-b").register()
    slave = ready(broker.world, broker_id=1, addr="10.0.0.2:10911")
    assert callable(leave)
    leave(broker)
    assert set(tables(broker).topics["T"]) == {"broker-a", "broker-b"}
    leave(slave)
    assert set(tables(broker).topics["T"]) == {"broker-b"}
    assert set(tables(broker).clusters) == {"d"}
    leave(other)
    found = tables(broker)
    assert (found.topics, found.clusters, found.brokers, found.live) == ({}, {}, {}, {})


def test_when_an_acting_brokers_master_goes_its_topics_take_no_sends() -> None:
    world = World()
    master = FakeBroker(world).topic("T")
    master.register(enable_acting_master=True)
    FakeBroker(world, broker_id=1, addr="10.0.0.2:10911").topic("T").register(enable_acting_master=True)
    master.close()
    assert tables(master).topics["T"]["broker-a"].perm == 4


def told(world: World) -> list[tuple[str, dict[str, str]]]:
    """Who was told what since the last call."""
    effects = world.server.take_effects()
    return [(effect.addr, effect.ext) for effect in effects if isinstance(effect, TellBroker)]


@pytest.mark.parametrize("notify", [True, False])
def test_a_set_is_told_which_of_its_brokers_has_the_smallest_id(notify: bool) -> None:
    world = World(notify_min_broker_id_changed=notify)
    brokers = [FakeBroker(world, broker_id=n, addr=f"10.0.0.{n}:10911").topic("T") for n in (1, 2, 0)]
    for broker in brokers:
        broker.register(enable_acting_master=True)
        broker.register(enable_acting_master=True)
    returned = {"minBrokerId": "0", "minBrokerAddr": "10.0.0.0:10911", "haBrokerAddr": "10.0.0.0:10912"}
    assert told(world) == ([("10.0.0.1:10911", returned), ("10.0.0.2:10911", returned)] if notify else [])
    brokers[2].close()
    gone = {"minBrokerId": "1", "minBrokerAddr": "10.0.0.1:10911", "offlineBrokerAddr": "10.0.0.0:10911"}
    assert told(world) == ([("10.0.0.1:10911", gone), ("10.0.0.2:10911", gone)] if notify else [])
    brokers[1].close()
    assert told(world) == []
    brokers[0].close()
    assert told(world) == []


def test_a_set_without_acting_masters_is_not_told_that_its_master_left() -> None:
    world = World(notify_min_broker_id_changed=True)
    master = ready(world)
    FakeBroker(world, broker_id=1, addr="10.0.0.2:10911").topic("T").register(enable_acting_master=False)
    master.close()
    assert told(world) == []


def test_an_old_connection_that_closes_late_takes_nothing() -> None:
    broker = ready()
    again = ready(broker.world)
    broker.close()
    assert tables(broker).brokers
    again.close()
    assert not tables(broker).brokers


@pytest.mark.parametrize("cluster", ["c", "another"])
def test_another_connection_does_not_unregister_a_connected_broker(cluster: str) -> None:
    broker = ready()
    stranger = broker.world.peer()
    header = UnRegisterBrokerRequestHeader(
        broker_name=broker.name, broker_addr=broker.addr, cluster_name=cluster, broker_id=broker.broker_id
    )
    answer = stranger.ask(codes.UNREGISTER_BROKER, header, expect=codes.NO_PERMISSION)
    assert answer.remark == (
        "unregister broker failed, 10.0.0.1:10911 is registered over another connection, which is open"
    )
    assert set(tables(broker).topics["T"]) == {"broker-a"}
    unregister(broker)
    assert not tables(broker).brokers


def test_unregistering_what_is_unknown_is_no_error() -> None:
    unregister(FakeBroker(World()))


def test_a_silent_broker_is_dropped_and_its_connection_closed() -> None:
    broker = ready()
    world = broker.world
    world.pass_time(120_000)
    assert tables(broker).brokers
    assert world.server.take_effects() == []
    world.pass_time(5_001)
    assert not tables(broker).brokers
    (effect,) = world.server.take_effects()
    assert isinstance(effect, CloseChannel)
    assert effect.channel_id == broker.channel_id
    assert world.server.due(world.now) is None


def test_a_broker_names_its_own_timeout() -> None:
    broker = FakeBroker(World()).topic("T")
    broker.register(heartbeat_timeout_millis=7_000)
    broker.world.pass_time(7_000)
    assert tables(broker).brokers
    broker.world.pass_time(5_000)
    assert not tables(broker).brokers


def heartbeat(broker: FakeBroker) -> None:
    header = BrokerHeartbeatRequestHeader(
        cluster_name=broker.cluster, broker_addr=broker.addr, broker_name=broker.name, broker_id=0
    )
    broker.ask(codes.BROKER_HEARTBEAT, header)


def query_version(broker: FakeBroker) -> tuple[bool, DataVersion | None]:
    header = QueryDataVersionRequestHeader(
        broker_name=broker.name, broker_addr=broker.addr, cluster_name=broker.cluster, broker_id=0
    )
    response = broker.ask(codes.QUERY_DATA_VERSION, header, encode_body(broker.data_version))
    answer = decode_header(response, QueryDataVersionResponseHeader)
    return answer.changed, decode_body(response.body, DataVersion) if response.body else None


@pytest.mark.parametrize("sign", [heartbeat, query_version, FakeBroker.register])
def test_every_sign_of_life_counts(sign: object) -> None:
    broker = ready()
    assert callable(sign)
    for _ in range(4):
        broker.world.pass_time(100_000)
        sign(broker)
    assert tables(broker).brokers
    broker.world.pass_time(126_000)
    assert not tables(broker).brokers
    heartbeat(broker)
    assert not tables(broker).brokers  # a heartbeat registers nobody


def test_a_broker_asks_whether_it_has_something_new() -> None:
    broker = FakeBroker(World()).topic("T")
    assert query_version(broker) == (True, None)
    broker.register()
    known = broker.data_version
    assert query_version(broker) == (False, known)
    broker.topic("T2")
    assert query_version(broker) == (True, known)


def test_the_zone_of_a_broker_travels_to_the_route() -> None:
    broker = FakeBroker(World()).topic("T")
    ext = broker.header().to_ext() | {"__ZONE_NAME": "z1"}
    broker.send(make_request(codes.REGISTER_BROKER, 1, ext, encode_register_body(broker.body())))
    route = broker.world.server.routes.route("T")
    assert route is not None
    assert route.broker_datas[0].zone_name == "z1"


def test_a_topic_with_a_number_that_is_no_int_costs_no_other_its_route() -> None:
    world = World()
    wrapper = {
        "topicConfigTable": {
            "Good": {"topicName": "Good", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6},
            "Bad": {"topicName": "Bad", "readQueueNums": 5_000_000_000, "perm": 6},
            "Odd": 7,
        },
        "dataVersion": {"counter": 1, "timestamp": 2, "stateVersion": 0},
    }
    body = json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode()
    header = RegisterBrokerRequestHeader(
        broker_name="b", broker_addr="10.0.0.1:10911", cluster_name="c", ha_server_addr="10.0.0.1:10912", broker_id=0
    )
    answer = world.peer().send(make_request(codes.REGISTER_BROKER, 1, header.to_ext(), body))
    assert answer is not None and answer.code == 0 and (answer.remark or "").endswith("Bad, Odd")
    assert set(world.server.tables.topics) == {"Good"}
    assert world.server.tables.brokers["b"].broker_addrs == {0: "10.0.0.1:10911"}


def test_brokers_have_a_limit() -> None:
    world = World(max_brokers=2)
    first = ready(world)
    second = ready(world, name="broker-b", addr="10.0.0.2:10911")
    for other in (
        FakeBroker(world, name="broker-c", addr="10.0.0.3:10911"),
        FakeBroker(world, broker_id=1, addr="10.0.0.3:10911"),
        FakeBroker(world, name="broker-c"),
        FakeBroker(world, cluster="d"),
    ):
        answer = other.topic("T").register(expect=codes.SYSTEM_ERROR)
        assert answer.remark == "register broker failed, 2 brokers are registered, as many as maxBrokers allows"
    first.register()
    second.close()
    FakeBroker(world, name="broker-c", addr="10.0.0.3:10911").topic("T").register()
    assert set(tables(first).brokers) == {"broker-a", "broker-c"}


def test_topics_of_all_brokers_have_a_limit() -> None:
    world = World(max_topic_entries=5)
    first = ready(world)
    second = ready(world, name="broker-b", addr="10.0.0.2:10911")
    answer = second.topic("A").topic("B").register(expect=codes.SYSTEM_ERROR)
    assert answer.remark == (
        "register broker failed, its 2 new topics and the 4 of all brokers are more than maxTopicEntries = 5 allows"
    )
    assert "A" not in tables(first).topics
    first.topic("A").register()
    route = encode_body(TopicRouteData([QueueData("broker-b", 1, 1, 6, 0)]))
    second.ask(codes.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequestHeader(topic="B"), route, codes.SYSTEM_ERROR)
    second.ask(codes.REGISTER_TOPIC_IN_NAMESRV, RegisterTopicRequestHeader(topic="T"), route)
    first.close()
    second.register()
    assert tables(first).topic_entries == 4


def test_names_of_a_registration_have_a_limit() -> None:
    world = World()
    for broker in (
        FakeBroker(world).topic("T" * 1025),
        FakeBroker(world, name="b" * 1025),
        FakeBroker(world, addr="a" * 1025),
        FakeBroker(world, cluster="c" * 1025),
    ):
        broker.register(expect=codes.SYSTEM_ERROR)
    broker = FakeBroker(world)
    broker.filter_servers = ["f"] * 65
    broker.register(expect=codes.SYSTEM_ERROR)
    broker.filter_servers = ["f"] * 64
    broker.topic("T" * 1024).register()


def test_changed_address_or_cluster_replaces_the_old() -> None:
    broker = ready()
    renamed = ready(broker.world, name="broker-b")
    assert set(tables(broker).brokers) == {"broker-b"}
    moved = ready(broker.world, name="broker-b", cluster="d")
    for each in (renamed, moved, broker):
        each.close()
    found = tables(broker)
    assert (found.clusters, found.brokers, found.live, found.names_listed) == ({}, {}, {}, 0)
