"""What a name server knows: brokers that leave cost what they registered, some at a time, and are gone at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bolide.namesrv.tables import BrokerAddress, Tables
from bolide.remoting.bodies.route import BrokerData, QueueData
from bolide.remoting.bodies.topics import TopicConfig
from tests.namesrv.peer import FakeBroker, World


class CountedTopics(dict[str, dict[str, QueueData]]):
    """Counts whole walks over the topics of all brokers."""

    walks = 0

    def __iter__(self) -> Iterator[str]:
        self.walks += 1
        return super().__iter__()

    def values(self) -> Any:
        self.walks += 1
        return super().values()


def with_brokers(count: int, topics: int) -> Tables:
    tables = Tables()
    for number in range(count):
        name = f"b{number}"
        tables.brokers[name] = BrokerData("c", name, {0: f"addr-{number}"})
        for topic in range(topics):
            tables.put_queues(name, TopicConfig(f"{name}-{topic}"), 6)
    return tables


def test_a_broker_that_leaves_does_not_cost_the_topics_of_the_others() -> None:
    tables = with_brokers(4, 5)
    tables.topics = counted = CountedTopics(tables.topics)
    tables.change_perms("b1", lambda perm: 4)
    tables.remove("b1", BrokerAddress("c", "addr-1"))
    tables.drop_some()
    assert counted.walks == 0
    assert (len(tables.topics), tables.leaving) == (15, False)


def test_topics_of_brokers_that_left_are_forgotten_some_at_a_time() -> None:
    tables = with_brokers(3, 5)
    for number in (0, 1):
        tables.remove(f"b{number}", BrokerAddress("c", f"addr-{number}"))
    left = []
    while tables.leaving:
        tables.drop_some(4)
        left.append(len(tables.topics))
    assert left == [11, 7, 5]


def test_a_broker_that_comes_back_at_once_keeps_what_it_registers() -> None:
    world = World()
    first = FakeBroker(world).topic("Old").topic("Kept")
    other = FakeBroker(world, "broker-b", addr="10.0.0.2:10911").topic("Kept")
    first.register()
    other.register()
    tables = world.server.tables
    tables.remove("broker-a", BrokerAddress("c", first.addr))
    assert tables.leaving
    route = world.server.routes.route("Kept")
    assert route is not None
    assert [queue.broker_name for queue in route.queue_datas] == ["broker-b"]
    assert world.server.routes.route("Old") is None
    del first.topics["Old"]
    first.register()
    world.pass_time(1)
    assert (set(tables.topics), set(tables.topics["Kept"])) == ({"TBW102", "Kept"}, {"broker-a", "broker-b"})
