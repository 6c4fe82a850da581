"""Plans from one document to another: order, what is deleted, and what name servers keep of ordered topics."""

from __future__ import annotations

from typing import Any

import pytest

from bolide.admin.declared import (
    Declared,
    DeclaredBroker,
    DeclaredGroup,
    DeclaredTopic,
    DeclaredUser,
    decode_declared,
)
from bolide.admin.plan import PlannedChange, PlanRefused, carry_out, orders_after, plan
from bolide.client import NoQueue, ResponseError
from bolide.errors import ConfigError, ConnectionLost
from bolide.remoting import codes
from bolide.testing.broker import Broker
from tests.admin.failing_requests import FailingAdmin

ORDERED = DeclaredTopic(4, 4, order=True)


def of(**brokers: DeclaredBroker) -> Declared:
    """A document."""
    return Declared(1, brokers)


@pytest.mark.parametrize(
    "section",
    [
        {"topics": {"t": {"readQueueNums": 4, "writeQueueNums": 4, "topicFilterType": "TAG"}}},
        {"users": {"u": {"userType": "Root"}}},
        {"users": {"u": {"userStatus": "disabled"}}},
        {"policies": {"u": {"Topic:t": {"actions": ["Pub", "Read"]}}}},
        {"policies": {"u": {"Topic:t": {"actions": ["Pub"], "decision": "Reject"}}}},
    ],
)
def test_unknown_name_is_rejected(section: dict[str, Any]) -> None:
    """A broker would use a default for most of them."""
    with pytest.raises(ConfigError, match=r"^all.json is not .* matching regex .*`\$.brokers"):
        decode_declared({"bolide": 1, "brokers": {"a": section}}, "all.json")


def test_plan_deletes_only_with_prune_and_last() -> None:
    have = of(a=DeclaredBroker(topics={"old": ORDERED}, groups={"g": DeclaredGroup()}))
    want = of(a=DeclaredBroker(topics={"new": ORDERED}, groups={"g": DeclaredGroup(retry_max_times=3)}))
    assert [step.action for step in plan(want, have)] == ["create", "change"]
    steps = plan(want, have, prune=True)
    assert [(step.action, step.name) for step in steps] == [("create", "new"), ("change", "g"), ("delete", "old")]


def test_a_section_that_is_left_out_is_left_alone() -> None:
    have = of(a=DeclaredBroker(topics={"old": ORDERED}, users={"admin": DeclaredUser("Super")}))
    assert plan(of(a=DeclaredBroker(groups={})), have, prune=True) == []


def test_each_broker_has_steps_of_its_own_and_an_unknown_one_is_refused() -> None:
    have = of(a=DeclaredBroker(topics={"t": ORDERED}), b=DeclaredBroker(topics={}))
    want = DeclaredBroker(topics={"t": ORDERED})
    assert [(step.broker, step.action) for step in plan(of(a=want, b=want), have)] == [("b", "create")]
    with pytest.raises(NoQueue, match="no master of c is registered; known brokers: a, b"):
        plan(of(a=want, c=want), have)


def test_users_where_there_is_no_access_control_are_refused() -> None:
    with pytest.raises(PlanRefused, match="a has no access control"):
        plan(of(a=DeclaredBroker(users={"u": DeclaredUser()})), of(a=DeclaredBroker(topics={})))


def test_the_order_of_a_topic_names_all_its_brokers() -> None:
    found = of(a=DeclaredBroker(topics={"t": ORDERED}), b=DeclaredBroker(topics={}))
    made = PlannedChange("b", "topic", "t", "create", None, DeclaredTopic(2, 2, order=True))
    assert orders_after([made], found) == {"t": "a:4;b:2"}
    ended = PlannedChange("a", "topic", "t", "change", ORDERED, DeclaredTopic(4, 4))
    assert orders_after([ended], found) == {"t": ""}
    plain = PlannedChange("b", "topic", "u", "create", None, DeclaredTopic(2, 2))
    assert orders_after([plain], found) == {}


async def test_change_is_repeated_while_its_broker_is_busy_and_a_failed_plan_names_its_progress(
    bolide_broker: Broker,
) -> None:
    name = "broker-a"
    found = of(**{name: DeclaredBroker(topics={})})
    steps = [PlannedChange(name, "topic", topic, "create", None, ORDERED) for topic in ("one", "two")]
    said: list[str] = []
    async with FailingAdmin(bolide_broker.namesrv_addr) as admin:
        admin.errors = {
            codes.UPDATE_AND_CREATE_TOPIC: [ResponseError("busy", codes.SYSTEM_BUSY)],
            codes.PUT_KV_CONFIG: [ConnectionLost("the name server is away")],
        }
        assert await carry_out(admin, steps, found, said.append, seconds=60) == 2
        assert admin.pending == [] and said == []
        assert set(await admin.list_kv("ORDER_TOPIC_CONFIG")) == {"one", "two"}
        admin.errors[codes.PUT_KV_CONFIG] = [ConnectionLost("the name server is away")]
        with pytest.raises(ConnectionLost):
            await carry_out(admin, steps, found, said.append, seconds=0)
        admin.errors[codes.UPDATE_AND_CREATE_TOPIC] = [ResponseError("no", codes.INVALID_PARAMETER)]
        with pytest.raises(ResponseError):
            await carry_out(admin, steps, found, said.append, seconds=60)
    assert said == [f"{done} of 2 changes are done: run this command again for the rest" for done in (2, 0)]
