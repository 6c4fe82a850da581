"""Groups made by a heartbeat and used no more: forgotten, unless anything would be lost with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from bolide.broker.consumers.group_expiry import LOOK_INTERVAL_MS, GroupExpiry
from bolide.broker.core.names import dlq_topic, retry_topic
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.clients import Client
from bolide.broker.tables.groups import GroupTable, SubscriptionGroupConfig
from bolide.remoting.bodies.clients import ConsumerData
from tests.broker.parts import NOW, Parts, send_request

DAY = 24 * 3600 * 1000


class Expiry(Parts):
    """The parts with a group that a heartbeat made."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.expiry = GroupExpiry(self.options, self.store, self.groups, self.topics, self.offsets, self.clients, NOW)
        self.make("g")

    def make(self, group: str) -> None:
        assert self.groups.find(group, NOW) is not None
        self.topics.find_or_create(retry_topic(group), 1, 6, 0, False, NOW)

    def look(self, now: int, budget: int = 1000) -> None:
        self.expiry.tick(now, budget)

    @property
    def there(self) -> bool:
        found = self.groups.get("g") is not None
        assert found == (self.topics.get(retry_topic("g")) is not None)
        return found


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Expiry]:
    made = Expiry(tmp_path)
    yield made
    made.close()


def test_a_group_without_use_is_forgotten_after_a_day(parts: Expiry) -> None:
    parts.look(NOW)
    parts.look(NOW + DAY - 1)
    assert parts.there
    parts.effects.persists.clear()
    parts.look(NOW + DAY)
    assert not parts.there and parts.effects.persists == {"subscriptionGroup", "topics"}
    assert parts.groups.find("g", NOW + DAY) is not None


USES: dict[str, Callable[[Expiry], object]] = {
    "a member": lambda parts: parts.clients.register_consumer(
        ConsumerData(group_name="g"), Client(parts.channel, "c", 0, 513, NOW)
    ),
    "an offset": lambda parts: parts.offsets.commit("g", "T", 0, 1, NOW),
    "a pull": lambda parts: parts.offsets.note_pull("g", "T", 0, 1),
    "a reset": lambda parts: parts.offsets.assign_reset("g", "T", 0, 1, NOW),
    "a retry": lambda parts: parts.answer(send_request(retry_topic("g"))),
    "a retry that waits": lambda parts: parts.answer(send_request(retry_topic("g"), properties="DELAY\x013\x02")),
    "a dead letter": lambda parts: parts.topics.find_or_create(dlq_topic("g"), 1, 6, 0, False, NOW),
    "a forbidden topic": lambda parts: parts.groups.forbid_read("g", "T", True, NOW),
    "an operator's settings": lambda parts: parts.groups.put(SubscriptionGroupConfig("g"), NOW),
}


@pytest.mark.parametrize("use", list(USES))
def test_a_group_with_anything_to_lose_stays(parts: Expiry, use: str) -> None:
    parts.look(NOW)
    USES[use](parts)
    for days in (1, 2, 3):
        parts.look(NOW + days * DAY)
    assert parts.there


def test_a_use_begins_the_time_again(parts: Expiry) -> None:
    parts.look(NOW)
    parts.offsets.commit("g", "T", 0, 1, NOW)
    parts.look(NOW + DAY)
    parts.offsets.remove_topic("T", NOW + DAY)
    parts.look(NOW + DAY)
    parts.look(NOW + 2 * DAY - 1)
    assert parts.there
    parts.look(NOW + 2 * DAY)
    assert not parts.there


def test_a_tick_looks_at_so_many_and_at_the_rest_soon(parts: Expiry) -> None:
    for number in range(5):
        parts.make(f"g{number}")
    for now in (NOW, NOW + DAY):
        parts.look(now, budget=4)
        assert parts.expiry.due(now) == now
        parts.look(now, budget=4)
        assert parts.expiry.due(now) == now + LOOK_INTERVAL_MS
    assert not parts.groups.made_by_use and not parts.there


def test_a_time_of_none_keeps_every_group(parts: Expiry) -> None:
    parts.expiry.configure(BrokerOptions.of(unused_group_expire_time=0))
    parts.look(NOW)
    parts.look(NOW + 9 * DAY)
    assert parts.there


def test_origin_of_a_group_survives_reload(parts: Expiry) -> None:
    parts.groups.put(SubscriptionGroupConfig("made"), NOW)
    again = GroupTable(parts.options, parts.effects, NOW)
    again.load(parts.groups.encode())
    assert again.made_by_use == {"g"} and "made" in again.table
    again.load(msgspec.json.encode({"bolideMadeByUse": ["nobody"]}))
    assert again.made_by_use == {"g"}
