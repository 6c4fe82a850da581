"""The routes of a cluster: its topics, queues and brokers, as its name servers describe them, and requests to brokers.

Requests for many queues of a broker are sent together over one connection. Transient failures are retried: requests to
a broker for `retry_timeout_ms`, requests to a name server that never responded only three times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from bolide.errors import BolideError, RequestTimeout
from bolide.layout.names import MASTER_ID
from bolide.layout.permissions import PERM_READ, PERM_WRITE
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer
from bolide.remoting.bodies.route import ClusterInfo, TopicRouteData
from bolide.remoting.bodies.topics import TopicList
from bolide.remoting.command import Command, make_request
from bolide.remoting.unsupported import not_a_name_server
from bolide.spark.errors import ClusterUnavailable, OptionError, TopicMissing
from bolide.spark.source.connection import ClusterAccess
from bolide.spark.source.members import BrokerMembers, may_act
from bolide.spark.source.patient_requests import PatientRequests, signed
from bolide.spark.source.queues import Queue
from bolide.transport.blocking import ClientConnection

HIDDEN: Final = 8
"""Number of queues after the last one of a topic to check for messages."""
AT_ONCE: Final = 256
"""Requests in flight to one broker: more would fill the sockets of both sides before either reads."""


class ClusterRoutes:
    """A cluster as its name servers describe it."""

    def __init__(self, options: ClusterAccess, pause_s: float) -> None:
        self._options = options
        self._requests = PatientRequests(options, pause_s)
        self._timeout = options.request_timeout_ms / 1000
        self._patience = options.retry_timeout_ms / 1000
        self._fresh = options.discovery_interval_ms / 1000
        self._routes: dict[str, tuple[float, TopicRouteData]] = {}
        self._absent: set[str] = set()
        """Topics that had no route at the last query."""
        self._listed: tuple[float, list[str]] | None = None
        self._met = False
        self._masters: dict[str, str] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        """Addresses by broker name, with the master first. Filled by `queues`."""
        self.answered: dict[str, str] = {}
        """Address of the last response, by broker name."""

    def close(self) -> None:
        """Close every connection."""
        self._requests.close()

    def selected(self, tolerant: bool = False) -> list[Queue]:
        """Return the queues that the options select, at most a few seconds old. Raises `OptionError` if there are none.

        With `tolerant`, a topic without a route has no queues, for example while all its brokers are down.
        """
        choice = self._options.selection
        topics = self._matching() if choice.pattern else choice.topics
        if not topics and not tolerant:
            raise OptionError(f"no topic matches subscribePattern {choice.pattern}: create one, or check the pattern")
        found = [queue for queue in self.queues(topics, tolerant=tolerant) if choice.keeps_of_topic(queue)]
        missing = sorted(set(choice.assigned) - set(found))
        if missing and not tolerant:
            raise OptionError(f"option assign names the queue {missing[0]}, which no broker has for reading")
        if not found and not tolerant:
            raise OptionError(f"{choice} has no readable queue left: check options brokers and queueIds")
        return found

    def queues(self, topics: Iterable[str], writable: bool = False, tolerant: bool = False) -> list[Queue]:
        """Return the readable (or writable) queues of the topics, sorted, at most a few seconds old.

        Raises `TopicMissing` if a topic has no route, unless `tolerant`.
        """
        found: set[Queue] = set()
        for topic in topics:
            try:
                route = self._fresh_route(topic)
            except TopicMissing:
                if not tolerant:
                    raise
                self._absent.add(topic)
                continue
            self._absent.discard(topic)
            self._note(route)
            for queue_data in route.queue_datas:
                count = queue_data.write_queue_nums if writable else queue_data.read_queue_nums
                if queue_data.perm & (PERM_WRITE if writable else PERM_READ):
                    found.update(Queue(topic, queue_data.broker_name, queue_id) for queue_id in range(count))
        return sorted(found)

    def dropped(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the selected queues that their topic no longer has, with its current number of read queues.

        Omits topics and brokers without a route, because they may only be down.
        """
        found: dict[Queue, int] = {}
        for queue in queues:
            route = self._routes.get(queue.topic)
            if route is None or not self._options.selection.keeps(queue):
                continue
            for data in route[1].queue_datas:
                if (
                    data.broker_name == queue.broker
                    and data.perm & PERM_READ
                    and queue.queue_id >= data.read_queue_nums
                ):
                    found[queue] = data.read_queue_nums
        return found

    def hidden(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return selected queues that topics may have had before they shrank, with the current number of read queues.

        A broker keeps the messages of such queues but does not return them. Returns the first few queues: senders use
        all queues in turn, so one of these has messages if any has.
        """
        found: dict[Queue, int] = {}
        for topic in sorted({queue.topic for queue in queues}):
            for data in self._routes[topic][1].queue_datas:
                count = data.read_queue_nums
                most = max(count + HIDDEN, min(data.write_queue_nums, count + AT_ONCE))
                for queue_id in range(count, most) if data.perm & PERM_READ else ():
                    queue = Queue(topic, data.broker_name, queue_id)
                    if self._options.selection.keeps(queue):
                        found[queue] = count
        return found

    def routed(self, queue: Queue) -> bool:
        """Return whether the topic of a queue exists on its broker, readable or not."""
        route = None if queue.topic in self._absent else self._routes.get(queue.topic)
        return route is not None and any(data.broker_name == queue.broker for data in route[1].queue_datas)

    def registered(self) -> set[str]:
        """Return the names of the registered brokers."""
        return set(self._cluster_info().broker_addr_table)

    def _cluster_info(self, patience: float | None = None) -> ClusterInfo:
        answer = self._ask_namesrv(codes.GET_BROKER_CLUSTER_INFO, {}, patience)
        if answer.code != codes.SUCCESS:
            raise ClusterUnavailable(f"the list of brokers: the name server returned {answer.code}: {answer.remark}")
        return decode_answer(answer.body, ClusterInfo)

    def _note(self, route: TopicRouteData) -> None:
        for broker in route.broker_datas:
            addresses = broker.broker_addrs
            if addresses:
                self.addresses[broker.broker_name] = tuple(addresses[key] for key in sorted(addresses))
            shown = addresses.get(MASTER_ID, "")
            acts = shown and may_act(broker, route.queue_datas)
            self._masters[broker.broker_name] = self._registered_master(broker.broker_name) if acts else shown

    def _registered_master(self, broker: str) -> str:
        """Return the master's address from the list of brokers, which does not show acting masters, or ""."""
        try:
            data = self._cluster_info(0.0).broker_addr_table.get(broker)
        except BolideError:
            return ""
        return "" if data is None else data.broker_addrs.get(MASTER_ID, "")

    def master_answered(self, broker: str) -> bool:
        """Return whether the last response came from the master of a broker, not from a replica that may lag."""
        return broker in self._masters and self.answered.get(broker) == self._masters[broker]

    def surely_master_answered(self, broker: str) -> bool:
        """Like `master_answered`, but re-reads the route first: a master replaced seconds ago may now be a slave."""
        if self.master_answered(broker):
            self.relearn(broker)
        return self.master_answered(broker)

    def master(self, broker: str) -> str:
        """Return the last known address of the master, to which messages are sent, or "" if none is registered."""
        return self._masters.get(broker, "")

    def members(self, broker: str) -> BrokerMembers:
        """Return the last known addresses of a broker for reads."""
        return BrokerMembers(self.addresses.get(broker, ()), self.master(broker))

    def closed(self, topic: str, queue_id: int | None = None) -> str:
        """Return a broker that rejects messages to a topic (or to one queue) while its master is down, or "".

        Name servers clear the write bit only in sets with acting masters. In other sets, an operator cleared it.
        """
        known = self._routes.get(topic)
        if known is None:
            return ""
        acting = {broker.broker_name for broker in known[1].broker_datas if broker.enable_acting_master}
        for data in known[1].queue_datas:
            fits = queue_id is None or queue_id < data.write_queue_nums
            if fits and data.broker_name in acting and not data.perm & PERM_WRITE and not self.master(data.broker_name):
                return data.broker_name
        return ""

    def forget(self, topic: str) -> None:
        """Invalidate the route of a topic."""
        if topic in self._routes:
            self._routes[topic] = -math.inf, self._routes[topic][1]

    def _matching(self) -> list[str]:
        """Return the topics that match the pattern, at most a few seconds old."""
        if self._listed is None or time.monotonic() - self._listed[0] > self._fresh:
            names = self.topic_names()
            hidden = self._topic_list(codes.GET_SYSTEM_TOPIC_LIST_FROM_NS)
            self._listed = time.monotonic(), self._options.selection.matching(names, hidden)
        return self._listed[1]

    def topic_names(self) -> list[str]:
        """Return all topics of the name servers."""
        return self._topic_list(codes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)

    def _topic_list(self, code: int) -> list[str]:
        answer = self._ask_namesrv(code, {})
        if answer.code != codes.SUCCESS:
            raise ClusterUnavailable(f"the list of topics: the name server returned {answer.code}: {answer.remark}")
        return decode_answer(answer.body, TopicList).topic_list

    def _fresh_route(self, topic: str) -> TopicRouteData:
        known = self._routes.get(topic)
        if known is None or time.monotonic() - known[0] > self._fresh:
            known = self._routes[topic] = (time.monotonic(), self._route(topic))
        return known[1]

    def _route(self, topic: str, patience: float | None = None) -> TopicRouteData:
        ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
        answer = self._ask_namesrv(codes.GET_ROUTEINFO_BY_TOPIC, ext, patience)
        if answer.code == codes.TOPIC_NOT_EXIST:
            raise TopicMissing(f"topic {topic} has no route: create it, check the name, or see if its broker runs")
        if answer.code != codes.SUCCESS:
            raise ClusterUnavailable(f"the route of {topic}: the name server returned {answer.code}: {answer.remark}")
        return decode_answer(answer.body, TopicRouteData)

    def relearn(self, broker: str) -> None:
        """Query the name servers once for the addresses of a broker. Keeps the known addresses if none responds."""
        for topic, (_, route) in list(self._routes.items()):
            if any(data.broker_name == broker for data in route.broker_datas):
                try:
                    fresh = self._route(topic, 0.0)
                except BolideError:
                    return
                self._routes[topic] = time.monotonic(), fresh
                self._note(fresh)
                return

    # -- requests

    def answers(
        self, queues: list[Queue], question: Callable[[Queue], tuple[int, dict[str, str]]], at_once: int = AT_ONCE
    ) -> Iterator[tuple[Queue, Command]]:
        """Yield each queue with the response of its broker. At most `at_once` requests are in flight per broker."""
        by_broker: dict[str, list[Queue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker, []).append(queue)
        for broker, asked in by_broker.items():
            for first in range(0, len(asked), at_once):
                few = asked[first : first + at_once]
                commands = []
                for queue in few:
                    code, ext = question(queue)
                    commands.append(signed(make_request(code, 0, ext), self._options))
                yield from zip(few, self.ask(broker, commands), strict=True)

    def ask(self, broker: str, commands: list[Command]) -> list[Command]:
        """Send requests to a broker together, and return the responses in order. Raises `ClusterUnavailable` if it does
        not respond in time."""
        if broker not in self.addresses:
            self.queues(self._options.topics, tolerant=True)
        if broker not in self.addresses:
            raise ClusterUnavailable(f"no address of broker {broker} is known: is it registered with the name server?")

        def ask(connection: ClientConnection) -> list[Command]:
            pending = [connection.start(command, self._timeout) for command in commands]
            answers = [each.result() for each in pending]
            busy = next((answer for answer in answers if answer.code == codes.SYSTEM_BUSY), None)
            if busy is not None:
                raise RequestTimeout(f"{connection.address} is busy: {busy.remark}")
            self.answered[broker] = connection.address
            return answers

        return self._requests.retry(
            f"broker {broker}",
            lambda: self.addresses[broker],
            ask,
            self._patience,
            failed=lambda: self._unanswered(broker),
            next_round=lambda: self.relearn(broker),
        )

    def _unanswered(self, broker: str) -> None:
        """Called after an address of a broker did not respond. Does nothing here."""

    def _ask_namesrv(self, code: int, ext: dict[str, str], patience: float | None = None) -> Command:
        def ask(connection: ClientConnection) -> Command:
            answer = connection.request(signed(make_request(code, 0, dict(ext)), self._options), self._timeout)
            if answer.code == codes.REQUEST_CODE_NOT_SUPPORTED:
                raise OptionError(f"option namesrv: {not_a_name_server(connection.address, answer.remark)}")
            return answer

        if patience is None:
            patience = self._patience if self._met else 0.0
        answer = self._requests.retry("name server", lambda: self._options.namesrv, ask, patience)
        self._met = True
        return answer
