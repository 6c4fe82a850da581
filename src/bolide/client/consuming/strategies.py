"""RocketMQ's rebalance strategies, which assign queues to clients; each is a pure function of queues and client ids.

The arguments of a strategy are the group, its client id, all queues and all client ids, both in Java's order. Every
member computes the same table, so a strategy must not depend on anything else. Plug-ins add more through the entry
points `bolide.allocate_strategies` (`bolide.plugins`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bolide import plugins
from bolide.client.messages.arguments import check_callable
from bolide.client.messages.checked import checked
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.user_code import raise_interruption
from bolide.errors import ArgumentError, ConfigError, LocalError, reason

Strategy = Callable[[str, str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]
"""``strategy(group, client_id, queues, client_ids)`` returns the queues of `client_id`, one of `client_ids`."""

VIRTUAL_NODES: Final = 10


def avg(group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
    """AVG: contiguous queues; the first clients get one more if necessary (AllocateMessageQueueAveragely)."""
    count, index = len(clients), clients.index(client_id)
    rest = len(queues) % count
    size = 1 if len(queues) <= count else len(queues) // count + (1 if index < rest else 0)
    start = index * size if rest > 0 and index < rest else index * size + rest
    return list(queues[start : start + max(0, min(size, len(queues) - start))])


def avg_by_circle(
    group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: round robin (AllocateMessageQueueAveragelyByCircle)."""
    return list(queues[clients.index(client_id) :: len(clients)])


def consistent_hash(
    group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
) -> list[MessageQueue]:
    """CONSISTENT_HASH: few queues move if a client joins or leaves (AllocateMessageQueueConsistentHash, MD5)."""
    ring = sorted({_md5(f"{client}-{node}"): client for client in clients for node in range(VIRTUAL_NODES)}.items())
    points = [point for point, _ in ring]
    return [queue for queue in queues if ring[bisect_left(points, _md5(queue.java_text())) % len(ring)][1] == client_id]


def _md5(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


@checked
def config(mine: Iterable[MessageQueue]) -> Strategy:
    """CONFIG: exactly these queues (AllocateMessageQueueByConfig)."""
    fixed = list(mine)
    return lambda group, client_id, queues, clients: list(fixed)


def _room(broker_name: str) -> str | None:
    """Return the room in ``room@name``, or None for any other form, as Java's split parses it."""
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


@checked
def machine_room(rooms: Iterable[str]) -> Strategy:
    """MACHINE_ROOM: only brokers named ``room@name`` of these rooms (AllocateMessageQueueByMachineRoom)."""
    wanted = frozenset(rooms)

    def strategy(
        group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> list[MessageQueue]:
        near = [queue for queue in queues if _room(queue.broker_name) in wanted]
        share, rest = divmod(len(near), len(clients))
        index = clients.index(client_id)
        mine = near[index * share : (index + 1) * share]
        if index < rest:
            mine.append(near[share * len(clients) + index])
        return mine

    return strategy


def machine_room_nearby(
    inner: Strategy, room_of_broker: Callable[[str], str], room_of_client: Callable[[str], str]
) -> Strategy:
    """MACHINE_ROOM_NEARBY: `inner` within each room; all clients share the queues of rooms without a client
    (AllocateMachineRoomNearby)."""
    check_callable("inner", inner, "group, client_id, queues, client_ids")
    check_callable("room_of_broker", room_of_broker, "broker_name")
    check_callable("room_of_client", room_of_client, "client_id")

    def strategy(
        group: str, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]
    ) -> list[MessageQueue]:
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_in.setdefault(room_of_broker(queue.broker_name), []).append(queue)
        clients_in: dict[str, list[str]] = {}
        for client in clients:
            clients_in.setdefault(room_of_client(client), []).append(client)
        room = room_of_client(client_id)
        mine = inner(group, client_id, queues_in[room], clients_in[room]) if room in queues_in else []
        for other, orphans in queues_in.items():
            if other not in clients_in:
                mine += inner(group, client_id, orphans, clients)
        return mine

    return strategy


def find_strategy(name: str | Strategy) -> Strategy:
    """Return the strategy with a name, built in or installed, or the given function. Raises `ArgumentError`."""
    if not isinstance(name, str):
        check_callable("strategy", name, "group, client_id, queues, client_ids")
        return name
    try:
        found: Strategy = plugins.find(plugins.ALLOCATE_STRATEGIES, name)
    except ConfigError as error:
        raise ArgumentError(str(error), "strategy") from None
    return found


def shared_out(
    strategy: Strategy, group: str, client_id: str, queues: list[MessageQueue], clients: list[str]
) -> list[MessageQueue]:
    """Return the queues of a topic that are assigned to `client_id`. Raises `LocalError` if the strategy raises."""
    try:
        return list(strategy(group, client_id, queues, clients))
    except BaseException as error:
        raise_interruption(error)
        topic = queues[0].topic if queues else ""
        raise LocalError(f"the strategy of group {group} cannot share out topic {topic}: {reason(error)}") from error
