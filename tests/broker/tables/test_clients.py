"""Who is connected: heartbeats, unregistering, closing, expiry, and who is told."""

from __future__ import annotations

import time

from bolide.broker.core.channel import Channel
from bolide.broker.tables.clients import CLIENT_EXPIRY_MS, Client, Clients
from bolide.remoting.bodies.clients import ConsumerData, ConsumeType, MessageModel, SubscriptionData


def channel(number: int) -> Channel:
    return Channel(number, bytes(8), f"127.0.0.1:{number}")


def client(number: int, now: int = 0) -> Client:
    return Client(channel(number), f"client-{number}", 0, 513, now)


def data(*topics: str, version: int = 1, model: MessageModel = MessageModel.CLUSTERING) -> ConsumerData:
    subscriptions = [SubscriptionData(topic, "*", sub_version=version) for topic in topics]
    return ConsumerData("g", ConsumeType.CONSUME_PASSIVELY, model, None, subscriptions)


def ids(told: list[Channel]) -> list[int]:
    return [each.id for each in told]


def test_a_new_channel_is_told_to_all_and_a_repeated_heartbeat_to_nobody() -> None:
    clients = Clients()
    assert ids(clients.register_consumer(data("T"), client(1))) == [1]
    assert ids(clients.register_consumer(data("T"), client(2))) == [1, 2]
    assert ids(clients.register_consumer(data("T"), client(2))) == []


def test_a_changed_set_of_topics_is_a_change_and_a_newer_version_is_not() -> None:
    clients = Clients()
    clients.register_consumer(data("T"), client(1))
    assert ids(clients.register_consumer(data("T", version=2), client(1))) == []
    subscription = clients.subscription("g", "T")
    assert subscription is not None
    assert subscription.sub_version == 2
    clients.register_consumer(data("T", version=1), client(1))
    assert clients.subscription("g", "T") is subscription, "an older version does not replace a newer one"
    assert ids(clients.register_consumer(data("T", "U"), client(1))) == [1]
    assert ids(clients.register_consumer(data("U"), client(1))) == [1]
    assert clients.subscription("g", "T") is None


def test_a_heartbeat_without_subscriptions_keeps_them() -> None:
    clients = Clients()
    clients.register_consumer(data("T"), client(1))
    clients.register_consumer(data(), client(1), with_subscriptions=False)
    assert clients.subscription("g", "T") is not None


def test_the_last_client_takes_the_group_with_it() -> None:
    clients = Clients()
    one, two = client(1), client(2)
    clients.register_consumer(data("T"), one)
    clients.register_consumer(data("T"), two)
    assert ids(clients.unregister_consumer("g", one.channel)) == [2]
    assert clients.unregister_consumer("g", two.channel) == []
    assert clients.consumer_group("g") is None
    assert clients.unregister_consumer("g", two.channel) == []


def test_a_closed_channel_leaves_all_its_groups() -> None:
    clients = Clients()
    one, two = client(1), client(2)
    clients.register_consumer(data("T"), one)
    clients.register_consumer(data("T"), two)
    clients.register_producer("p", one)
    told = clients.drop(one.channel)
    assert {group: ids(channels) for group, channels in told.items()} == {"g": [2]}
    assert clients.producer_groups == {}


def test_a_silent_client_expires_after_two_minutes() -> None:
    clients = Clients()
    clients.register_consumer(data("T"), client(1, now=0))
    clients.register_consumer(data("T"), client(2, now=1))
    clients.register_producer("p", client(3, now=0))
    assert clients.expired(CLIENT_EXPIRY_MS) == []
    assert sorted(ids(clients.expired(CLIENT_EXPIRY_MS + 1))) == [1, 3]


def test_producers_take_turns_and_dead_ones_are_passed_over() -> None:
    clients = Clients()
    made = [client(number) for number in (1, 2, 3)]
    for each in made:
        clients.register_producer("p", each)
    made[1].channel.alive = False
    turns = [clients.next_producer("p", ["T"]) for _ in range(3)]
    assert [each.client_id if each else None for each in turns] == ["client-1", "client-3", "client-1"]
    assert clients.next_producer("nobody", ["T"]) is None
    assert clients.producer_by_client_id("client-2") is None
    found = clients.producer_by_client_id("client-3")
    assert found is made[2]


def test_connections_that_close_cost_their_own_groups() -> None:
    clients = Clients()
    for number in range(20_000):
        clients.register_producer(f"p{number}", client(0))
    others = [client(number) for number in range(1, 2_001)]
    for each in others:
        clients.register_consumer(data("T"), each)
        clients.unregister_consumer("g", each.channel)
        clients.register_producer("p", each)
    began = time.process_time()
    for each in others:
        assert clients.drop(each.channel) == {}
    assert time.process_time() - began < 0.5  # 0.01 s; a look at all groups for each of them takes 2 s
    assert "p" not in clients.producer_groups and len(clients.producer_groups) == 20_000


def test_a_channel_leaves_all_of_its_groups_at_once() -> None:
    clients = Clients()
    one, two = client(1), client(2)
    clients.register_consumer(data("T"), one)
    clients.register_consumer(data("T"), two)
    clients.register_producer("p", one)
    assert [group.name for group in clients.groups_of(one.channel)] == ["g"]
    assert {name: ids(told) for name, told in clients.drop(one.channel).items()} == {"g": [2]}
    assert clients.groups_of(one.channel) == [] and not clients.producer_groups
    assert clients.drop(one.channel) == {}


def test_a_channel_of_producers_keeps_its_first_client_id_and_stays_alive() -> None:
    clients = Clients()
    first, second = client(1), client(1, now=CLIENT_EXPIRY_MS)
    second.client_id = "another"
    clients.register_producer("g", first)
    clients.register_producer("g", second)
    assert [each.client_id for each in clients.producer_groups["g"].values()] == ["client-1"]
    assert clients.expired(CLIENT_EXPIRY_MS + 1) == []
    assert clients.producer_by_client_id("another") is None
