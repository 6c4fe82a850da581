"""Rebalance strategies: each queue to one client, and to the one RocketMQ's rules name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bolide import plugins
from bolide.client.consuming.strategies import (
    avg,
    avg_by_circle,
    config,
    consistent_hash,
    find_strategy,
    machine_room,
    machine_room_nearby,
    shared_out,
)
from bolide.client.messages.queue import MessageQueue
from bolide.errors import ArgumentError, LocalError
from tests.client.messages.escapes import ESCAPES


def queues(count: int, broker: str = "b") -> list[MessageQueue]:
    return [MessageQueue("T", broker, queue_id) for queue_id in range(count)]


def ids(found: list[MessageQueue]) -> list[int]:
    return [queue.queue_id for queue in found]


@pytest.mark.parametrize("name", sorted(plugins.ALLOCATE_STRATEGIES.built_in))
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 16])
@pytest.mark.parametrize("clients", [["a"], ["a", "b"], ["a", "b", "c", "d", "e"]])
def test_every_queue_belongs_to_exactly_one_client(name: str, count: int, clients: list[str]) -> None:
    strategy = find_strategy(name)
    everything = queues(count)
    shares = [strategy("G", client, everything, clients) for client in clients]
    assert sorted(queue for share in shares for queue in share) == everything


def test_avg_keeps_neighbours_together_and_the_first_take_more() -> None:
    clients = ["a", "b", "c"]
    assert [ids(avg("G", client, queues(8), clients)) for client in clients] == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert [ids(avg("G", client, queues(2), clients)) for client in clients] == [[0], [1], []]


def test_by_circle_deals_like_cards() -> None:
    assert ids(avg_by_circle("G", "b", queues(8), ["a", "b", "c"])) == [1, 4, 7]


def test_consistent_hash_moves_few_queues() -> None:
    before = {client: consistent_hash("G", client, queues(64), ["a", "b", "c"]) for client in "abc"}
    after = {client: consistent_hash("G", client, queues(64), ["a", "b"]) for client in "ab"}
    for client in "ab":
        assert set(before[client]) <= set(after[client])


def test_config_and_machine_rooms() -> None:
    near, far = queues(5, "near@x"), queues(3, "far@y")
    assert config(near[:2])("G", "a", near + far, ["a", "b"]) == near[:2]
    room = machine_room(["near"])
    assert ids(room("G", "a", near + far, ["a", "b"])) == [0, 1, 4]
    assert ids(room("G", "b", near + far, ["a", "b"])) == [2, 3]
    for odd in ("near", "near@", "near@x@y", "@near"):
        assert room("G", "a", queues(2, odd), ["a"]) == []
    nearby = machine_room_nearby(avg, lambda broker: broker.split("@")[0], lambda client: client.split("-")[0])
    assert nearby("G", "near-1", near + far, ["far-1", "near-1"]) == near
    assert nearby("G", "far-1", near + far, ["far-1", "near-1"]) == far
    alone = nearby("G", "near-1", near + far, ["near-1"])
    assert sorted(alone) == sorted(near + far)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ArgumentError, match="AVG, AVG_BY_CIRCLE, CONSISTENT_HASH, CONFIG"):
        find_strategy("NONE")
    with pytest.raises(ArgumentError, match="needs arguments"):
        find_strategy("CONFIG")
    assert find_strategy(avg) is avg


@pytest.mark.parametrize("kind", [ValueError, *ESCAPES])
def test_whatever_a_strategy_raises_is_an_error_of_this_client(kind: type[BaseException]) -> None:
    def strategy(
        group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> list[MessageQueue]:
        raise kind

    with pytest.raises(LocalError, match="the strategy of group G cannot share out topic T"):
        shared_out(strategy, "G", "a", queues(2), ["a"])
