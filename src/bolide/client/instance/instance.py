"""ClientInstance: shared by the producers and consumers of one client id (RocketMQ's MQClientInstance).

It has the connections, routes, one heartbeat, and the handlers of brokers' requests. It exists from the first member's
start to the last member's close. A group can have only one member in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Set
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from bolide.client.instance.background_tasks import KeptTask
from bolide.client.instance.heartbeats import Heartbeats
from bolide.client.instance.members import ConsumerMember, ProducerMember
from bolide.client.instance.name_servers import REFRESH_INTERVAL
from bolide.client.instance.options import ClientOptions
from bolide.client.instance.request_reply import Replies
from bolide.client.instance.routed_client import RoutedClient
from bolide.client.messages.errors import ClientForked, ClientStateError, TopicNotFound
from bolide.errors import BolideError, reason
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import ClusterInfo
from bolide.remoting.command import Command, make_response
from bolide.transport.client import ClientConnection

log = logging.getLogger("bolide.client")


Instances = WeakValueDictionary[ClientOptions, "ClientInstance"]

_instances: WeakKeyDictionary[asyncio.AbstractEventLoop, Instances] = WeakKeyDictionary()
"""Weak keys and values: members and tasks hold an instance, and an instance holds its loop."""


class ClientInstance(RoutedClient):
    """Shared by all members with equal `ClientOptions` on one event loop; see `acquire`."""

    def __init__(self, options: ClientOptions) -> None:
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}
        self.heartbeats = Heartbeats(self, self.producers, self.consumers)
        super().__init__(options, self._on_request, self.heartbeats.greet)
        self.replies = Replies()
        self.pid = os.getpid()
        self._members = 0

    # -- life cycle

    @classmethod
    def acquire(cls, options: ClientOptions) -> ClientInstance:
        """Return the instance for these options on the running loop. Creates and starts it at the first call."""
        known = _instances.setdefault(asyncio.get_running_loop(), Instances())
        instance = known.get(options)
        if instance is None:
            instance = known[options] = cls(options)
            instance.keep(lambda: instance._every(options.heartbeat_interval, instance.heartbeats.send), "heartbeat")
            instance.keep(lambda: instance._every(options.route_interval, instance.refresh_routes), "routes")
            if instance.name_servers.url:
                instance.keep(lambda: instance._every(REFRESH_INTERVAL, instance.name_servers.refresh), "name servers")
        instance._members += 1
        return instance

    async def release(self) -> None:
        """Release the instance. The last release closes the connections and stops the tasks."""
        self._members -= 1
        if self._members > 0:
            return
        known = _instances.get(self._loop)
        if known is not None and known.get(self.options) is self:
            del known[self.options]
        await self._tasks.cancel()
        await self.pool.close()

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as a task. It is cancelled when the last member releases the instance."""
        return self._tasks.spawn(work, name)

    def keep(
        self, work: Callable[[], Coroutine[Any, Any, None]], name: str, ended: Callable[[], None] | None = None
    ) -> KeptTask:
        """Run `work` as a task that restarts after a failure, or if code outside the client cancels it. Calls `ended`
        after its last end. It is cancelled when the last member releases the instance."""
        return self._tasks.keep(work, name, ended)

    def check_process(self) -> None:
        """Raise `ClientForked` in a process other than the one that started this client."""
        if os.getpid() != self.pid:
            raise ClientForked(
                f"client {self.client_id} was started in process {self.pid} and cannot be used in its child"
                f" {os.getpid()}: start a client after the fork"
            )

    def check_loop(self) -> None:
        """Raise `ClientStateError` on an event loop other than the one this client was started on."""
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
        """Add a producer. Raises `ClientStateError` if its group is already a member."""
        if member.group in self.producers:
            raise ClientStateError(f"producer group {member.group} is started already in client {self.client_id}")
        self.producers[member.group] = member

    def add_consumer(self, member: ConsumerMember) -> None:
        """Add a consumer. Raises `ClientStateError` if its group is already a member.

        Also raises it if the group is in an instance with the same client id and other options. A broker would treat
        both as one member, and both would read all its queues.
        """
        twins = [
            other
            for other in _instances.get(self._loop, Instances()).values()
            if other.client_id == self.client_id and other.options.namesrv == self.options.namesrv
        ]
        if any(member.group in other.consumers for other in [self, *twins]):
            raise ClientStateError(
                f"consumer group {member.group} is started already in client {self.client_id},"
                " give the second one another instance_name"
            )
        self.consumers[member.group] = member

    async def remove_producer(self, group: str) -> None:
        """Remove a producer and unregister it at the brokers."""
        if self.producers.pop(group, None) is not None:
            await self._unregister({"clientID": self.client_id, "producerGroup": group})

    async def remove_consumer(self, group: str) -> None:
        """Remove a consumer and unregister it at the brokers, which then notify the other members, so that they
        rebalance immediately."""
        if self.consumers.pop(group, None) is not None:
            await self._unregister({"clientID": self.client_id, "consumerGroup": group})

    async def _unregister(self, ext: dict[str, str]) -> None:
        asked = [
            self.call(address, codes.UNREGISTER_CLIENT, dict(ext))
            for address in self.broker_addresses()
            if self.pool.live(address) is not None  # a broker unregisters clients whose connection closed
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

    async def refresh_routes(self) -> None:
        """Refresh the routes of all topics of all members, and drop brokers without a route."""
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
        if any(producer.check_transaction is not None for producer in self.producers.values()):
            routed |= await self.find_brokers(routed)
        for name in sorted(set(self.brokers) - routed):
            for address in self.brokers.pop(name).values():
                self.pool.drop(address)

    async def find_brokers(self, routed: Set[str] = frozenset()) -> Set[str]:
        """Fetch the addresses of the cluster's brokers, so that heartbeats reach them. Skips `routed`, whose routes are
        newer.

        Returns their names, or all stored names if no name server responds.
        """
        try:
            answer = await self.ask_namesrv(codes.GET_BROKER_CLUSTER_INFO)
            listed = decode_answer(answer.body, ClusterInfo).broker_addr_table
        except BolideError as error:
            log.debug("the brokers of the cluster are not known now: %s", error)
            return set(self.brokers)
        for name in listed.keys() - routed:
            self.brokers[name] = dict(listed[name].broker_addrs)
        return listed.keys()

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
                make_response(command, codes.SYSTEM_ERROR, f"no consumer of group {group} in {self.client_id}"),
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
        try:
            answer = await work
        except Exception as error:  # the broker must not wait for its timeout
            log.error("request %d of a broker failed", command.code, exc_info=error)
            answer = make_response(command, codes.SYSTEM_ERROR, f"the client failed: {reason(error)}")
        self._answer(connection, command, answer)

    def _answer(self, connection: ClientConnection, command: Command, answer: Command | None) -> None:
        if answer is not None and not command.is_oneway:
            connection.reply(answer)

    def _on_check_transaction(self, connection: ClientConnection, command: Command) -> None:
        for producer in self.producers.values():
            if producer.check_transaction is not None and producer.check_transaction(connection.address, command):
                return
        log.warning("%s checks a transaction of an unknown producer group", connection.address)
