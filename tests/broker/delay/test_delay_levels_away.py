"""Delay levels of an acting slave: due messages go to other sets, and progress follows those that arrived."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bolide.broker.core.away import MOST
from bolide.broker.core.role import SLAVE, Role
from bolide.layout.broker_message import BrokerMessage
from tests.broker.delay.delaying import Delaying
from tests.broker.parts import NOW


class Acting(Delaying):
    """A slave that takes the place of its master; its log is filled before."""

    def act(self, may_escape: bool = True) -> None:
        self.role = Role(SLAVE, 1, may_act=True, may_escape=may_escape)
        self.service.role = self.writer.role = self.role
        self.least(1)

    def least(self, number: int, now: int = NOW) -> None:
        self.role.least_is(number)
        self.service.role_changed(self.role, now)

    def sent(self) -> list[tuple[BrokerMessage, Callable[[str, int], None]]]:
        return self.effects.take().aways


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Acting]:
    made = Acting(tmp_path)
    yield made
    made.close()


def test_what_is_due_goes_to_another_set_and_counts_once_it_is_there(parts: Acting) -> None:
    for body in (b"a", b"b", b"c"):
        parts.delayed(1, body)
    parts.act()
    parts.tick(NOW + 999)
    assert parts.sent() == []
    parts.tick(NOW + 1000)
    found = parts.sent()
    assert [(message.topic, message.body) for message, _ in found] == [("T", b"a"), ("T", b"b"), ("T", b"c")]
    assert all(message.properties.get("DELAY") is None for message, _ in found)
    assert parts.delivered() == [] and parts.progress() == {}
    found[1][1]("", NOW + 1001)
    assert parts.progress() == {}, "the first is not there"
    found[0][1]("", NOW + 1002)
    assert parts.progress() == {"1": 2}
    found[2][1]("refused", NOW + 1003)
    parts.tick(NOW + 1100)
    assert parts.sent() == [] and parts.progress() == {"1": 2}
    parts.tick(NOW + 1600)
    ((again, then),) = parts.sent()
    assert again.body == b"c"
    then("", NOW + 1601)
    assert parts.progress() == {"1": 3}
    parts.tick(NOW + 20_000)
    assert "delayOffset" in parts.effects.take().persists
    assert json.loads(parts.service.encode())["dataVersion"]["counter"] >= 1, "a master that returns believes it"
    assert parts.service.due(NOW + 20_000) is None


def test_who_may_not_send_elsewhere_waits_for_the_master(parts: Acting) -> None:
    parts.delayed(1)
    parts.act(may_escape=False)
    assert parts.service.due(NOW) is None
    parts.tick(NOW + 5000)
    assert parts.sent() == [] and parts.progress() == {}


def test_what_is_under_way_when_the_master_returns_is_delivered_again(parts: Acting) -> None:
    for _ in range(2):
        parts.delayed(1)
    parts.act()
    parts.tick(NOW + 1000)
    (_, first), (_, second) = parts.sent()
    first("", NOW + 1001)
    parts.least(0)
    second("", NOW + 1002)
    assert parts.progress() == {"1": 1}
    assert parts.service.due(NOW) is None
    parts.tick(NOW + 5000)
    assert parts.sent() == []
    parts.least(1)
    parts.tick(NOW + 6000)
    assert len(parts.sent()) == 1


def test_no_more_than_so_many_are_under_way(parts: Acting) -> None:
    for _ in range(MOST + 10):
        parts.delayed(1)
    parts.act()
    parts.tick(NOW + 1000)
    found = parts.sent()
    assert len(found) == MOST
    parts.tick(NOW + 1100)
    assert parts.sent() == []
    for _, then in found:
        then("", NOW + 1150)
    parts.tick(NOW + 1200)
    assert len(parts.sent()) == 10


def test_a_master_that_returns_goes_on_where_the_slave_came_to(parts: Acting) -> None:
    for _ in range(3):
        parts.delayed(1)
    parts.service.take_back(json.dumps({"offsetTable": {"1": 2, "2": 9, "99": 1}}).encode())
    assert parts.progress() == {"1": 2}, "nothing beyond the end of a queue"
    parts.service.take_back(json.dumps({"offsetTable": {"1": 1}}).encode())
    assert parts.progress() == {"1": 2}
    parts.tick(NOW + 1000)
    assert len(parts.delivered()) == 1
