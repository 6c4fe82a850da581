"""RoutedClient: caches the routes of topics from the name servers, and the addresses of their brokers."""

from __future__ import annotations

import asyncio
import logging

from bolide.client.instance.background_tasks import BackgroundTasks
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.remoting_client import Greet, RemotingClient
from bolide.client.instance.route_looks import RouteLooks
from bolide.client.instance.routes import TopicRoute, decode_route
from bolide.errors import BolideError
from bolide.layout.names import MASTER_ID
from bolide.remoting import codes
from bolide.transport.client import OnRequest

log = logging.getLogger("bolide.client")


class RoutedClient(RemotingClient):
    """A `RemotingClient` that finds brokers by topic and by name (RocketMQ's topicRouteTable and brokerAddrTable)."""

    def __init__(self, options: ClientOptions, on_request: OnRequest, greet: Greet) -> None:
        super().__init__(options, on_request, greet)
        self.routes: dict[str, TopicRoute] = {}
        self.brokers: dict[str, dict[int, str]] = {}
        self.parents: dict[str, str] = {}
        """Parent topics of light queues (LMQ), which are not in any route. The parent's brokers have the queue."""
        self._loop = asyncio.get_running_loop()
        self._tasks = BackgroundTasks(self._loop)
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._looks = RouteLooks()

    async def route(self, topic: str) -> TopicRoute:
        """Return the route of a topic; request it if it is not cached. Raises `TopicNotFound`."""
        return self.routes.get(topic) or await self.fetch_route(topic)

    async def fetch_route(self, topic: str) -> TopicRoute:
        """Request the route of a topic from a name server. Simultaneous calls share one request.
        Raises `TopicNotFound`."""
        task = self._fetching.get(topic)
        if task is None:
            task = self._loop.create_task(self._fetch_route(topic), name=f"bolide route {topic}")
            self._fetching[topic] = task
            self._tasks.hold(task)
            task.add_done_callback(lambda done: self._fetched(topic, done))
        return await asyncio.shield(task)

    def _fetched(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        self._fetching.pop(topic, None)
        self._tasks.release(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: the callers have received it, or have stopped waiting

    async def _fetch_route(self, topic: str) -> TopicRoute:
        parent = self.parents.get(topic)
        if parent is not None:
            route = (await self.fetch_route(parent)).of_light_queue(topic)
            self.routes[topic] = route
            return route
        answer = await self.ask_namesrv(
            codes.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"}
        )
        route = decode_route(topic, answer.body)
        self.routes[topic] = route
        for name, addresses in route.brokers.items():
            self.brokers[name] = dict(addresses)
        return route

    def may_look(self, topic: str) -> bool:
        """Return whether `look_again` would wait: a request is allowed, or in progress."""
        return topic in self._fetching or self._looks.may(topic, self._loop.time())

    async def look_again(self, topic: str) -> None:
        """Refresh the route of a topic because a broker is unreachable or rejects requests. Limited by `RouteLooks`.

        Without a response the route stays unchanged.
        """
        if not self.may_look(topic):
            return
        if topic not in self._fetching:
            self._looks.looked(topic, self._loop.time())
        try:
            await self.fetch_route(topic)
        except BolideError as error:
            log.debug("the route of topic %s is not known now: %s", topic, error)

    def master_address(self, broker_name: str) -> str | None:
        """Return the address of a broker's master, or None if it is unknown."""
        return self.brokers.get(broker_name, {}).get(MASTER_ID)

    def any_address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of a broker with `broker_id`, or else of its master, or else of the smallest id."""
        known = self.brokers.get(broker_name)
        if not known:
            return None
        return known.get(broker_id) or known[min(known)]

    def broker_addresses(self) -> list[str]:
        """Return every broker address of the cached routes."""
        return [address for addresses in self.brokers.values() for address in addresses.values()]
