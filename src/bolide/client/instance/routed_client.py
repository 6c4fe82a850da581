"""RoutedClient: where topics are, as the name servers say, and the addresses of their brokers."""

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
        """Of light queues (LMQ), which are in no route: the topic whose brokers have them."""
        self._loop = asyncio.get_running_loop()
        self._tasks = BackgroundTasks(self._loop)
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._looks = RouteLooks()

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic, asked for if it is not known. Raises `TopicNotFound`."""
        return self.routes.get(topic) or await self.fetch_route(topic)

    async def fetch_route(self, topic: str) -> TopicRoute:
        """The route of a topic from a name server; two who ask at once share one request. Raises `TopicNotFound`."""
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
            task.exception()  # taken by those who asked, or wanted by nobody any more

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
        """True when `look_again` would wait: it may ask again, or the question is on its way."""
        return topic in self._fetching or self._looks.may(topic, self._loop.time())

    async def look_again(self, topic: str) -> None:
        """Ask where a topic is now, because a broker of it cannot be reached or refuses; not too often (`RouteLooks`).

        Without an answer the route stays as it is.
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
        """The address of a broker's master, if its route is known and it has one."""
        return self.brokers.get(broker_name, {}).get(MASTER_ID)

    def any_address(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """The address of a broker under `broker_id`, else its master's, else that of the smallest id."""
        known = self.brokers.get(broker_name)
        if not known:
            return None
        return known.get(broker_id) or known[min(known)]

    def broker_addresses(self) -> list[str]:
        """Every broker address known by route."""
        return [address for addresses in self.brokers.values() for address in addresses.values()]
