"""ClientInstance: what the producers and consumers of one client id share (RocketMQ's MQClientInstance).

Connections, routes, one heartbeat, and the requests brokers make of clients. It lives from the first member that
starts to the last that closes; a group can be a member only once.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

from bolide.client.instance.heartbeats import Heartbeats
from bolide.client.instance.name_servers import REFRESH_INTERVAL, NameServers
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.request_reply import Replies
from bolide.client.instance.route_looks import RouteLooks
from bolide.client.instance.routes import TopicRoute, decode_route
from bolide.client.instance.troubles import NoNameServer, Troubles
from bolide.client.messages.errors import (
    ClientForked,
    ClientStateError,
    ResponseError,
    TopicNotFound,
    not_a_name_server,
    response_error,
)
from bolide.client.messages.hooks import RpcCall
from bolide.errors import BolideError, ConnectionLost, ProtocolError, RequestTimeout
from bolide.layout.names import MASTER_ID
from bolide.remoting import codes
from bolide.remoting.codes import BINARY_TYPE, JSON_TYPE
from bolide.remoting.command import Command, make_request, make_response
from bolide.transport.client import ClientConnection
from bolide.transport.pool import ConnectionPool

log = logging.getLogger("bolide.client")


Instances = WeakValueDictionary[ClientOptions, "ClientInstance"]

_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, Instances] = WeakKeyDictionary()
"""Weak at both ends: members and tasks hold an instance, and an instance holds its loop."""


class ProducerMember(Protocol):
    """What the instance needs of a producer."""

    group: str

    def topics(self) -> set[str]:
        """Topics whose routes must stay fresh."""

    def topic_missing(self, topic: str) -> None:
        """No name server knows one of them now."""


class ConsumerMember(Protocol):
    """What the instance needs of a consumer."""

    group: str

    def topics(self) -> set[str]:
        """Topics whose routes must stay fresh."""

    def heartbeat(self) -> dict[str, Any]:
        """This consumer's part of the heartbeat (ConsumerData)."""

    def rebalance_soon(self) -> None:
        """The group has changed: share the queues out again now."""

    def serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        """Answer a request a broker makes of this group's consumer; None for no answer."""


class ClientInstance:
    """Shared by all members with equal `ClientOptions` on one event loop; see `acquire`."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self.client_id = options.client_id
        self.heartbeats = Heartbeats(self)
        self.world = options.world
        self.pool = ConnectionPool(
            self._on_request, options.ssl, options.call_timeout, self.heartbeats.greet, options.world
        )
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.replies = Replies()
        self.troubles = Troubles()
        self.routes: dict[str, TopicRoute] = {}
        self.brokers: dict[str, dict[int, str]] = {}
        self.parents: dict[str, str] = {}
        """Of light queues (LMQ), which are in no route: the topic whose brokers have them."""
        self.pid = os.getpid()
        self._loop = asyncio.get_running_loop()
        self.name_servers = NameServers(options.namesrv, options.world)
        # Clients spread over the name servers, as RocketMQ's do.
        self._namesrv = options.world.random.randrange(1000)
        self._members = 0
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._fetching: dict[str, asyncio.Task[TopicRoute]] = {}
        self._looks = RouteLooks()

    # -- life

    @classmethod
    def acquire(cls, options: ClientOptions) -> ClientInstance:
        """The instance for these options on the running loop, made and started for the first who asks."""
        known = _instances.setdefault(asyncio.get_running_loop(), Instances())
        instance = known.get(options)
        if instance is None:
            instance = known[options] = cls(options)
            instance.spawn(instance._every(options.heartbeat_interval, instance.heartbeats.send), "heartbeat")
            instance.spawn(instance._every(options.route_interval, instance.refresh_routes), "routes")
            if instance.name_servers.url:
                instance.spawn(instance._every(REFRESH_INTERVAL, instance.name_servers.refresh), "name servers")
        instance._members += 1
        return instance

    async def release(self) -> None:
        """Give the instance back; the last member closes connections and ends its tasks."""
        self._members -= 1
        if self._members > 0:
            return
        known = _instances.get(self._loop)
        if known is not None and known.get(self.options) is self:
            del known[self.options]
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.pool.close()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as a task that ends with the instance at the latest."""
        task = self._loop.create_task(work, name=f"bolide {name}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with %s", task.get_name(), error, exc_info=error)

    def check_process(self) -> None:
        """Raise `ClientForked` in a process other than the one that started this client."""
        if os.getpid() != self.pid:
            raise ClientForked(
                f"client {self.client_id} was started in process {self.pid} and cannot be used in its child"
                f" {os.getpid()}: start a client after the fork"
            )

    def check_loop(self) -> None:
        """Raise `ClientStateError` on any other event loop than the one this client was started on."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self._loop:
            raise ClientStateError(
                f"client {self.client_id} was started on another event loop: use it where it was started, start one"
                " per loop, or use bolide.client.blocking, which any thread may call"
            )

    def add_producer(self, member: ProducerMember) -> None:
        """Enter a producer. Raises `ClientStateError` when its group is here already."""
        if member.group in self.producers:
            raise ClientStateError(f"producer group {member.group} is started already in client {self.client_id}")
        self.producers[member.group] = member

    def add_consumer(self, member: ConsumerMember) -> None:
        """Enter a consumer. Raises `ClientStateError` when its group is here already."""
        if member.group in self.consumers:
            raise ClientStateError(
                f"consumer group {member.group} is started already in client {self.client_id},"
                " give the second one another instance_name"
            )
        self.consumers[member.group] = member

    async def remove_producer(self, group: str) -> None:
        """Take a producer out and tell the brokers."""
        if self.producers.pop(group, None) is not None:
            await self._unregister({"clientID": self.client_id, "producerGroup": group})

    async def remove_consumer(self, group: str) -> None:
        """Take a consumer out and tell the brokers, which then share its queues out at once."""
        if self.consumers.pop(group, None) is not None:
            await self._unregister({"clientID": self.client_id, "consumerGroup": group})

    async def _unregister(self, ext: dict[str, str]) -> None:
        asked = [
            self.call(address, codes.UNREGISTER_CLIENT, dict(ext))
            for address in self.broker_addresses()
            if self.pool.live(address) is not None  # one that is gone has forgotten us already
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, Exception):
                log.info("unregistering failed: %s", outcome)

    async def _every(self, seconds: float, work: Any) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await work()
            except BolideError as error:
                self.troubles.begin(work, "in the background", error)
            else:
                self.troubles.over(work)

    # -- calls

    async def call(
        self,
        address: str,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        accept: tuple[int, ...] = (codes.SUCCESS,),
    ) -> Command:
        """Ask `address` and return its answer. Raises `ResponseError` when the code is not among `accept`."""
        timeout = self.options.call_timeout if timeout is None else timeout
        connection = self.pool.live(address) or await self.pool.get(address)
        answer = await self.call_on(connection, code, ext, body, timeout)
        if answer.code not in accept:
            raise response_error(answer.code, answer.remark, codes.request_name(code), address)
        return answer

    async def call_on(
        self, connection: ClientConnection, code: int, ext: dict[str, str] | None, body: bytes, timeout: float
    ) -> Command:
        """The answer, whatever its code, with the hooks around."""
        hooks = self.options.hooks
        if not hooks:
            return await connection.request(self._request(code, ext, body), timeout)
        call = RpcCall(connection.address, code, dict(ext or {}), body, False)
        for hook in hooks:
            hook.before(call)
        answer = await connection.request(self._request(code, call.ext, call.body), timeout)
        for hook in hooks:
            hook.after(call, answer)
        return answer

    async def oneway(self, address: str, code: int, ext: dict[str, str] | None = None, body: bytes = b"") -> None:
        """Tell `address` something that gets no answer. Raises `ConnectionLost`."""
        connection = self.pool.live(address) or await self.pool.get(address)
        call = RpcCall(address, code, dict(ext or {}), body, True)
        for hook in self.options.hooks:
            hook.before(call)
        connection.oneway(self._request(code, call.ext, call.body, oneway=True))

    def _request(self, code: int, ext: dict[str, str] | None, body: bytes, oneway: bool = False) -> Command:
        kind = BINARY_TYPE if self.options.binary_header else JSON_TYPE
        return make_request(code, 0, ext, body, oneway, kind)

    async def ask_namesrv(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        *,
        accept: tuple[int, ...] = (codes.SUCCESS,),
        timeout: float | None = None,
    ) -> Command:
        """Ask one name server, the next one when it cannot be reached. Raises the last server's error."""
        servers = await self.name_servers.known()
        failure: BolideError | None = None
        for _ in range(len(servers)):
            address = servers[self._namesrv % len(servers)]
            try:
                answer = await self.call(address, code, ext, body, accept=accept, timeout=timeout)
            except (ConnectionLost, RequestTimeout, ProtocolError) as error:
                failure = error
                self._namesrv += 1
            except ResponseError as error:
                self.troubles.name_servers_answer()
                raise not_a_name_server(error, address) from None
            else:
                self.troubles.name_servers_answer()
                return answer
        tried = f"none of {len(servers)} name servers can be reached, the last error: " if len(servers) > 1 else ""
        hint = "; is it a name server of RocketMQ?" if isinstance(failure, RequestTimeout | ProtocolError) else ""
        raise NoNameServer(f"{tried or 'the name server cannot be reached: '}{failure}{hint}") from failure

    # -- routes

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic, asked for if it is not known. Raises `TopicNotFound`."""
        return self.routes.get(topic) or await self.fetch_route(topic)

    async def fetch_route(self, topic: str) -> TopicRoute:
        """The route of a topic from a name server; two who ask at once share one request. Raises `TopicNotFound`."""
        task = self._fetching.get(topic)
        if task is None:
            task = self._loop.create_task(self._fetch_route(topic), name=f"bolide route {topic}")
            self._fetching[topic] = task
            self._tasks[task] = None
            task.add_done_callback(lambda done: self._fetched(topic, done))
        return await asyncio.shield(task)

    def _fetched(self, topic: str, task: asyncio.Task[TopicRoute]) -> None:
        self._fetching.pop(topic, None)
        self._tasks.pop(task, None)
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

    async def refresh_routes(self) -> None:
        """Ask again for the routes of all topics of all members, and forget brokers nobody routes to."""
        topics: set[str] = set()
        topics.update(*(producer.topics() for producer in self.producers.values()))
        topics.update(*(consumer.topics() for consumer in self.consumers.values()))
        for topic in sorted(topics):
            try:
                await self.fetch_route(topic)
            except TopicNotFound:
                self.routes.pop(topic, None)
                self.troubles.over(("route", topic))
                for producer in self.producers.values():
                    producer.topic_missing(topic)
            except BolideError as error:
                self.troubles.begin(("route", topic), f"the route of topic {topic} could not be refreshed", error)
            else:
                self.troubles.over(("route", topic))
        routed = {name for route in self.routes.values() for name in route.brokers}
        for name in sorted(set(self.brokers) - routed):
            for address in self.brokers.pop(name).values():
                self.pool.drop(address)

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

    # -- requests of brokers

    def _on_request(self, connection: ClientConnection, command: Command) -> None:
        if command.code == codes.NOTIFY_CONSUMER_IDS_CHANGED:
            consumer = self.consumers.get(command.ext().get("consumerGroup", ""))
            if consumer is not None:
                consumer.rebalance_soon()
            return
        if command.code == codes.CHECK_TRANSACTION_STATE:
            self._on_check_transaction(connection, command)
            return
        if command.code == codes.PUSH_REPLY_MESSAGE_TO_CLIENT:
            self._answer(connection, command, self.replies.arrived(command))
            return
        ext = command.ext()
        group = ext.get("consumerGroup") or ext.get("group") or ""
        consumer = self.consumers.get(group)
        if consumer is None:
            self._answer(
                connection,
                command,
                make_response(command, codes.SYSTEM_ERROR, f"no consumer of group {group} lives in {self.client_id}"),
            )
            return
        answer = consumer.serve(command)
        if answer is None or isinstance(answer, Command):
            self._answer(connection, command, answer)
        else:
            self.spawn(self._answer_later(connection, command, answer), f"request {command.code}")

    async def _answer_later(
        self, connection: ClientConnection, command: Command, work: Coroutine[Any, Any, Command | None]
    ) -> None:
        self._answer(connection, command, await work)

    def _answer(self, connection: ClientConnection, command: Command, answer: Command | None) -> None:
        if answer is not None and not command.is_oneway:
            connection.reply(answer)

    def _on_check_transaction(self, connection: ClientConnection, command: Command) -> None:
        for producer in self.producers.values():
            check = getattr(producer, "check_transaction", None)
            if check is not None and check(connection.address, command):
                return
        log.warning("%s asks about a transaction of no producer here", connection.address)
