"""Sends messages of an acting slave to other broker sets of its cluster, using routes from name servers.

Like RocketMQ's EscapeBridge.putMessageToRemoteBroker: chooses writable queues of the topic at other broker names in
turn. `broker/core/away.py` decides which messages to resend, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bolide.access.users import signed
from bolide.broker.options.composed import BrokerOptions
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.names import AUTO_CREATE_TOPIC, MASTER_ID
from bolide.layout.permissions import PERM_WRITE
from bolide.node.replication.ha_client import LoopParts
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.namesrv import GetRouteInfoRequestHeader
from bolide.remoting.headers.send import SendMessageRequestHeaderV2
from bolide.transport.address import split_addresses
from bolide.transport.pool import ConnectionPool
from bolide.world.tasks import end_tasks

AT_ONCE: Final = 32
"""Maximum number of messages in flight."""
TIMEOUT_S: Final = 3.0
ROUTE_S: Final = 5.0
"""Maximum age of a route. A failed send also drops the route."""
MAX_ROUTES: Final = 1000
DEFAULT_QUEUES: Final = 8


class NotSent(BolideError):
    """No other set has stored the message."""

    retriable = True


class Elsewhere(Struct, frozen=True):
    """A writable queue of another broker set, with the address of its master."""

    broker_name: str
    address: str
    queue_id: int


def queues_elsewhere(route: TopicRouteData, cluster: str, own_name: str) -> list[Elsewhere]:
    """Return the possible destinations of a topic's messages: writable queues at other masters of this cluster."""
    masters = {
        broker.broker_name: broker.broker_addrs[MASTER_ID]
        for broker in route.broker_datas
        if broker.cluster == cluster and broker.broker_name != own_name and MASTER_ID in broker.broker_addrs
    }
    return [
        Elsewhere(queues.broker_name, masters[queues.broker_name], queue_id)
        for queues in route.queue_datas
        if queues.perm & PERM_WRITE and queues.broker_name in masters
        for queue_id in range(queues.write_queue_nums)
    ]


def send_request(message: BrokerMessage, queue: Elsewhere, group: str) -> Command:
    """Return the send request of a message to this queue."""
    header = SendMessageRequestHeaderV2(
        producer_group=message.properties.get(names.PGROUP) or group,
        topic=message.topic,
        default_topic=AUTO_CREATE_TOPIC,
        default_topic_queue_nums=DEFAULT_QUEUES,
        queue_id=queue.queue_id,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        flag=message.flag,
        properties=message.properties.text,
        reconsume_times=message.reconsume_times,
        unit_mode=False,
        batch=False,
    )
    return make_request(codes.SEND_MESSAGE_V2, 0, header.to_ext(), message.body)


class OtherSets:
    """Connections of one broker to other sets. Call all methods on its event loop."""

    def __init__(self, options: BrokerOptions, loop: LoopParts) -> None:
        """`loop.tls`: TLS context for brokers and name servers."""
        self._options = options
        self._loop = loop
        self._world = loop.world
        self._servers = split_addresses(options.registration.namesrv_addr)
        self._group = f"InnerProducerGroup_{options.place.broker_name}_{options.place.broker_id}"
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections = ConnectionPool(ssl=loop.tls, connect_timeout=TIMEOUT_S, world=loop.world)
        self._routes: dict[str, tuple[float, list[Elsewhere]]] = {}
        self._asking = asyncio.Lock()
        self._next = 0
        self._said = ""

    def send(self, message: BrokerMessage, then: Callable[[str, int], None]) -> None:
        """Send a message, then call `then(error, now)`. `error` is "" if another set has stored the message. Does not
        wait."""
        task = asyncio.get_running_loop().create_task(self._send(message, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel sends in flight without calling back, and close all connections."""
        await end_tasks(self._tasks)
        await self._connections.close()

    async def _send(self, message: BrokerMessage, then: Callable[[str, int], None]) -> None:
        error = ""
        try:
            async with self._room:
                await self._deliver(message)
        except (BolideError, OSError) as failed:
            error = str(failed) or type(failed).__name__
        self._say(error)
        then(error, self._loop.clock())
        self._loop.another_turn()

    def _say(self, error: str) -> None:
        """Log the first failure, and once when messages are accepted again."""
        if error and not self._said:
            self._loop.log.warning("messages wait, no other set takes them: %s", error)
        elif self._said and not error:
            self._loop.log.info("other sets accept messages again")
        self._said = error

    async def _deliver(self, message: BrokerMessage) -> None:
        queues = await self._queues(message.topic)
        if not queues:
            self._routes.pop(message.topic, None)
            raise NotSent(
                f"no other set of {self._options.place.broker_cluster_name} accepts messages of {message.topic}"
            )
        self._next += 1
        queue = queues[self._next % len(queues)]
        try:
            connection = await self._connections.get(queue.address)
            request = signed(send_request(message, queue, self._group), self._options.access.inner_credentials)
            answer = await connection.request(request, TIMEOUT_S)
        except BolideError:
            self._routes.pop(message.topic, None)
            raise
        if answer.code != codes.SUCCESS:
            self._routes.pop(message.topic, None)
            told = codes.response_name(answer.code)
            raise NotSent(f"{queue.broker_name} returned {told} for a message of {message.topic}: {answer.remark}")

    async def _queues(self, topic: str) -> list[Elsewhere]:
        async with self._asking:
            known = self._routes.get(topic)
            if known is not None and self._world.monotonic() < known[0] + ROUTE_S:
                return known[1]
            problems: list[str] = []
            for server in self._servers:
                try:
                    return self._kept(topic, await self._asked(server, topic))
                except BolideError as error:
                    problems.append(f"{server}: {error}")
            raise NotSent(f"no name server gives a route of {topic}: {'; '.join(problems)}")

    def _kept(self, topic: str, queues: list[Elsewhere]) -> list[Elsewhere]:
        if len(self._routes) >= MAX_ROUTES:
            self._routes.clear()
        self._routes[topic] = self._world.monotonic(), queues
        return queues

    async def _asked(self, server: str, topic: str) -> list[Elsewhere]:
        connection = await self._connections.get(server)
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        request = make_request(codes.GET_ROUTEINFO_BY_TOPIC, 0, header.to_ext())
        answer = await connection.request(signed(request, self._options.access.inner_credentials), TIMEOUT_S)
        if answer.code == codes.TOPIC_NOT_EXIST:
            return []
        if answer.code != codes.SUCCESS:
            raise NotSent(f"failed with {codes.response_name(answer.code)}: {answer.remark}")
        route = decode_answer(answer.body, TopicRouteData)
        return queues_elsewhere(route, self._options.place.broker_cluster_name, self._options.place.broker_name)
