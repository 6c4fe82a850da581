"""Plans from one document to another: order, what is deleted, and what name servers keep of ordered topics."""

from __future__ import annotations

import pytest

from bolide.admin.declared import Declared, DeclaredBroker, DeclaredGroup, DeclaredTopic, DeclaredUser
from bolide.admin.plan import PlannedChange, PlanRefused, orders_after, plan
from bolide.client import NoQueue

ORDERED = DeclaredTopic(4, 4, order=True)


def of(**brokers: DeclaredBroker) -> Declared:
    """A document."""
    return Declared(1, brokers)


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
