"""Round robin that leaves out the broker that failed, and those that are known to be slow."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bolide.client.instance.routes import QueueInfo, TopicRoute
from bolide.client.messages.errors import NoQueue
from bolide.client.producing.publish import PublishRoutes, TopicQueues
from bolide.world.real import THE_WORLD


def queues(*names: str) -> TopicQueues:
    route = TopicRoute(
        "T", tuple(QueueInfo(name, 2, 2, 6) for name in names), {name: {0: f"{name}:1"} for name in names}
    )
    return TopicQueues(route)


def chosen(topic: TopicQueues, avoid: str, faulty: set[str]) -> set[str]:
    return {topic.next_queue(avoid, faulty).broker_name for _ in range(12)}


def test_queues_are_chosen_in_turn() -> None:
    topic = queues("a", "b")
    assert {topic.next_queue() for _ in range(4)} == set(topic.queues)


def test_faulty_brokers_are_avoided_while_there_are_others() -> None:
    topic = queues("a", "b", "c")
    assert chosen(topic, "", {"a"}) == {"b", "c"}
    assert chosen(topic, "b", {"a"}) == {"c"}
    assert chosen(topic, "b", {"a", "c"}) == {"a", "c"}  # all others are faulty: still not the one that failed
    assert chosen(topic, "", {"a", "b", "c"}) == {"a", "b", "c"}
    assert chosen(queues("a"), "a", {"a"}) == {"a"}


def test_no_queue_is_an_error() -> None:
    with pytest.raises(NoQueue, match="no writable queue"):
        queues().next_queue("", {"a"})


def test_a_topic_that_nobody_knows_and_nobody_sends_to_is_forgotten() -> None:
    instance: Any = SimpleNamespace(routes={}, world=THE_WORLD)
    routes = PublishRoutes(4)
    instance.routes["T"] = queues("a").route
    assert routes.known(instance, "T") is not None
    del instance.routes["T"]
    for _ in range(3):
        routes.missing("T")  # a name server that has just started
        assert routes.known(instance, "T") is not None  # it is sent to all the same
    routes.missing("T")
    assert routes.topics() == {"T"}
    routes.missing("T")
    assert routes.topics() == set()
    routes.missing("T")
