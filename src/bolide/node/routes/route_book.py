"""Fetches routes of topics from name servers for services of the broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from bolide.access.users import Credentials, signed
from bolide.errors import BolideError
from bolide.layout.permissions import PERM_READ
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, decode_answer
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.command import make_request
from bolide.transport.address import split_addresses
from bolide.transport.pool import ConnectionPool
from bolide.transport.tls_contexts import RenewedContext
from bolide.world.contract import World
from bolide.world.real import THE_WORLD
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.routes")
TIMEOUT_S: Final = 2.0


class RouteBook:
    """Queries name servers in turn. `told(topic, queues)` is called with the readable queues, or None if there is no
    route."""

    def __init__(
        self,
        namesrv_addr: str,
        told: Callable[[str, list[MessageQueue] | None], None],
        tls: RenewedContext | None = None,
        world: World = THE_WORLD,
        credentials: Credentials | None = None,
    ) -> None:
        """`credentials` sign the requests."""
        self._servers = split_addresses(namesrv_addr)
        self._told = told
        self._credentials = credentials
        self._connections = ConnectionPool(ssl=tls, world=world)
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, topic: str) -> None:
        """Fetch a topic's route, unless a request is in progress."""
        if topic not in self._asking:
            task = asyncio.get_running_loop().create_task(self._ask(topic))
            self._asking[topic] = task
            task.add_done_callback(lambda done: self._asking.pop(topic, None))

    async def stop(self) -> None:
        """Cancel requests in progress, and close all connections."""
        await end_tasks(self._asking.values())
        await self._connections.close()

    async def _ask(self, topic: str) -> None:
        queues: list[MessageQueue] | None = None
        for server in self._servers:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    queues = await self._queues(server, topic)
                break
            except (BolideError, OSError) as error:
                log.warning("the name server %s returned no route of %s: %s", server, topic, error)
        self._told(topic, queues)

    async def _queues(self, server: str, topic: str) -> list[MessageQueue] | None:
        connection = await self._connections.get(server)
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        request = signed(make_request(codes.GET_ROUTEINFO_BY_TOPIC, 0, ext), self._credentials)
        response = await connection.request(request, TIMEOUT_S)
        if response.code != codes.SUCCESS:
            return None
        route = decode_answer(response.body, TopicRouteData)
        return [
            MessageQueue(topic, queue.broker_name, queue_id)
            for queue in route.queue_datas
            if queue.perm & PERM_READ
            for queue_id in range(queue.read_queue_nums)
        ]
