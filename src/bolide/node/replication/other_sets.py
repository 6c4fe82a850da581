"""Sends messages of an acting slave to other sets of its cluster, by the routes that name servers tell.

RocketMQ's EscapeBridge.putMessageToRemoteBroker: any writable queue of the topic at another broker name, in turn. What
is sent again, and when, is decided in `broker/core/away.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from bolide.access.users import signed
from bolide.broker.core.options import BrokerOptions
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.names import AUTO_CREATE_TOPIC, MASTER_ID
from bolide.layout.permissions import PERM_WRITE
from bolide.node.replication.link_to_master import LoopParts
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
"""Messages under way; the others wait for one of them."""
TIMEOUT_S: Final = 3.0
ROUTE_S: Final = 5.0
"""A route is asked for again after this, and after each send that fails."""
MAX_ROUTES: Final = 1000
DEFAULT_QUEUES: Final = 8


class NotSent(BolideError):
    """No other set has stored the message."""

    retriable = True


class Elsewhere(Struct, frozen=True):
    """A queue of another set that takes messages, and where its master is."""

    broker_name: str
    address: str
    queue_id: int


def queues_elsewhere(route: TopicRouteData, cluster: str, own_name: str) -> list[Elsewhere]:
    """Where the messages of a topic may go: writable queues at other masters of this cluster."""
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
    """The message as a request for this queue."""
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
    """Of one broker. Every method is called on its loop."""

    def __init__(self, options: BrokerOptions, loop: LoopParts) -> None:
        """`loop.tls` is how brokers and name servers are spoken to."""
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
        """Send it, then call `then(error, now)`; "" means that another set has stored it. Returns at once."""
        task = asyncio.get_running_loop().create_task(self._send(message, then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """End what is under way, which is not reported, and close."""
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
        """One line for each new reason, and one once messages arrive again."""
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
