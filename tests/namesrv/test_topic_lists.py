"""Lists of topic names."""

from __future__ import annotations

import pytest

from bolide.remoting import codes
from bolide.remoting.bodies import decode_body
from bolide.remoting.bodies.topics import TopicList
from bolide.remoting.headers import Header
from bolide.remoting.headers.namesrv import GetTopicsByClusterRequestHeader
from tests.namesrv.peer import FakeBroker, World


def world(**options: object) -> World:
    made = World(**options)
    one = (
        FakeBroker(made).topic("unit", topic_sys_flag=1).topic("sub", topic_sys_flag=2).topic("both", topic_sys_flag=3)
    )
    one.register()
    FakeBroker(made, "broker-b", addr="10.0.0.2:10911", cluster="d").topic("far").register()
    return made


CLUSTER = GetTopicsByClusterRequestHeader(cluster="d")
LISTS: list[tuple[int, Header | None, list[str], str | None]] = [
    (codes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, ["TBW102", "both", "far", "sub", "unit"], None),
    (codes.GET_TOPICS_BY_CLUSTER, CLUSTER, ["TBW102", "far"], None),
    (codes.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequestHeader(cluster="nowhere"), [], None),
    (codes.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, ["broker-a", "broker-b", "c", "d"], "10.0.0.1:10911"),
    (codes.GET_UNIT_TOPIC_LIST, None, ["both", "unit"], None),
    (codes.GET_HAS_UNIT_SUB_TOPIC_LIST, None, ["both", "sub"], None),
    (codes.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, None, ["sub"], None),
]


@pytest.mark.parametrize(("code", "header", "names", "addr"), LISTS)
def test_names(code: int, header: Header | None, names: list[str], addr: str | None) -> None:
    body = decode_body(world().peer().ask(code, header).body, TopicList)
    assert sorted(body.topic_list) == names
    assert body.broker_addr == addr


@pytest.mark.parametrize(
    ("code", "header"),
    [(code, header) for code, header, _, _ in LISTS if code != codes.GET_SYSTEM_TOPIC_LIST_FROM_NS],
)
def test_lists_can_be_switched_off(code: int, header: Header | None) -> None:
    everything = code == codes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    option = {"enable_all_topic_list": False} if everything else {"enable_topic_list": False}
    response = world(**option).peer().ask(code, header, expect=codes.SYSTEM_ERROR)
    assert (response.remark or "").startswith("disable")


def test_unknown_topics_give_empty_lists() -> None:
    for code, header, _, _ in LISTS:
        assert decode_body(World().peer().ask(code, header).body, TopicList) == TopicList()


def test_a_name_of_a_cluster_and_of_its_broker_is_listed_once() -> None:
    made = World()
    FakeBroker(made, "same", cluster="same").topic("a").register()
    FakeBroker(made, "same", addr="10.0.0.2:10911", cluster="other").topic("a").register()
    body = decode_body(made.peer().ask(codes.GET_SYSTEM_TOPIC_LIST_FROM_NS, None).body, TopicList)
    assert sorted(body.topic_list) == ["other", "same"]
