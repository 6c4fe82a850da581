"""What the driver asks of a cluster: routes, queues, and offsets by every rule a user may name.

Runs in Spark's planner and stream processes, never in an event loop. Questions for many queues of one broker go out
together over one connection. Transient failures are tried again here, since an error that leaves a stream reader ends
the query.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.route import TopicRouteData
from bolide.remoting.command import Command, make_request
from bolide.remoting.signature import sign_request
from bolide.spark.errors import ClusterUnavailable, OptionError
from bolide.spark.options import Position, SourceOptions
from bolide.spark.queues import EARLIEST, LATEST, Offsets, Queue
from bolide.transport.blocking import ClientConnection, ConnectionPool

T = TypeVar("T")

READABLE: Final = 4
WRITABLE: Final = 2
ROUTE_SECONDS: Final = 10.0
"""A stream asks for its queues at every poll, up to a hundred times a second."""
MASTER: Final = 0
ATTEMPTS: Final = 3
PAUSE_S: Final = 0.5


class Cluster:
    """A cluster as its name servers describe it. Connections are made on first use and kept until `close`."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._timeout = options.request_timeout_ms / 1000
        self._pool = ConnectionPool(connect_timeout=self._timeout)
        self._routes: dict[str, tuple[float, TopicRouteData]] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        """Broker name to addresses, the master's first; filled by `queues`."""

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def queues(self, topics: Iterable[str], writable: bool = False) -> list[Queue]:
        """The readable (or writable) queues of the topics, sorted, as of the last few seconds.

        Raises OptionError for a topic no name server knows.
        """
        found: set[Queue] = set()
        for topic in topics:
            route = self._fresh_route(topic)
            for broker in route.broker_datas:
                addresses = broker.broker_addrs
                self.addresses[broker.broker_name] = tuple(addresses[key] for key in sorted(addresses))
            for queue_data in route.queue_datas:
                count = queue_data.write_queue_nums if writable else queue_data.read_queue_nums
                if queue_data.perm & (WRITABLE if writable else READABLE):
                    found.update(Queue(topic, queue_data.broker_name, queue_id) for queue_id in range(count))
        return sorted(found)

    def resolve(self, position: Position, queues: list[Queue], default: int) -> Offsets:
        """The offset of each queue at a position; queues that JSON offsets leave out get `default` (-2 or -1)."""
        if position.kind == "earliest":
            return self.earliest(queues)
        if position.kind == "latest":
            return self.latest(queues)
        if position.kind == "timestamp":
            return self.by_time(queues, position.timestamp)
        if position.kind == "group":
            return self.committed(queues, self._options.group, default)
        return self._given(position.given(), queues, default)

    def earliest(self, queues: list[Queue]) -> Offsets:
        """The first offset still stored, by queue."""
        return self._offsets(queues, lambda queue: (codes.GET_MIN_OFFSET, _queue_ext(queue)))

    def latest(self, queues: list[Queue]) -> Offsets:
        """The offset the next message will get, by queue."""
        return self._offsets(queues, lambda queue: (codes.GET_MAX_OFFSET, _queue_ext(queue)))

    def by_time(self, queues: list[Queue], timestamp: int) -> Offsets:
        """The first offset stored at `timestamp` (ms) or later, by queue."""

        def question(queue: Queue) -> tuple[int, dict[str, str]]:
            return codes.SEARCH_OFFSET_BY_TIMESTAMP, {**_queue_ext(queue), "timestamp": str(timestamp)}

        return self._offsets(queues, question)

    def committed(self, queues: list[Queue], group: str, default: int) -> Offsets:
        """A consumer group's committed offsets; queues it never committed get `default` (-2 or -1)."""

        def question(queue: Queue) -> tuple[int, dict[str, str]]:
            ext = {**_queue_ext(queue), "consumerGroup": group, "setZeroIfNotFound": "false"}
            return codes.QUERY_CONSUMER_OFFSET, ext

        found = self._offsets(queues, question, absent=codes.QUERY_NOT_FOUND)
        return self._fill(found, queues, default)

    def _given(self, given: Mapping[Queue, int], queues: list[Queue], default: int) -> Offsets:
        unknown = sorted(set(given) - set(queues))
        if unknown:
            known = ", ".join(str(queue) for queue in queues[:8])
            raise OptionError(f"offsets name the queue {unknown[0]}, which is not there; the queues are {known}")
        plain = {queue: offset for queue, offset in given.items() if offset >= 0}
        for mark, ask in ((EARLIEST, self.earliest), (LATEST, self.latest)):
            marked = [queue for queue, offset in given.items() if offset == mark]
            if marked:
                plain.update(ask(marked))
        return self._fill(plain, queues, default)

    def _fill(self, found: Offsets, queues: list[Queue], default: int) -> Offsets:
        missing = [queue for queue in queues if queue not in found]
        if missing:
            found.update(self.earliest(missing) if default == EARLIEST else self.latest(missing))
        return found

    def _offsets(
        self, queues: list[Queue], question: Callable[[Queue], tuple[int, dict[str, str]]], absent: int | None = None
    ) -> Offsets:
        by_broker: dict[str, list[Queue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker, []).append(queue)
        found: Offsets = {}
        for broker, asked in by_broker.items():
            commands = []
            for queue in asked:
                code, ext = question(queue)
                commands.append(self._signed(make_request(code, 0, ext)))
            answers = self._ask(broker, commands)
            for queue, answer in zip(asked, answers, strict=True):
                if answer.code == codes.SUCCESS:
                    found[queue] = int(answer.ext()["offset"])
                elif answer.code != absent:
                    raise ClusterUnavailable(f"{queue}: the broker answered {answer.code}: {answer.remark}")
        return found

    def _ask(self, broker: str, commands: list[Command]) -> list[Command]:
        addresses = self.addresses.get(broker)
        if not addresses:
            self.queues(self._options.topics)
            addresses = self.addresses.get(broker, ())
        if not addresses:
            raise ClusterUnavailable(f"no address of broker {broker} is known: is it registered with the name server?")

        def ask(connection: ClientConnection) -> list[Command]:
            pending = [connection.start(command, self._timeout) for command in commands]
            return [each.result() for each in pending]

        return self._retry(f"broker {broker}", addresses, ask)

    def _fresh_route(self, topic: str) -> TopicRouteData:
        known = self._routes.get(topic)
        if known is None or time.monotonic() - known[0] > ROUTE_SECONDS:
            known = self._routes[topic] = (time.monotonic(), self._route(topic))
        return known[1]

    def _route(self, topic: str) -> TopicRouteData:
        def ask(connection: ClientConnection) -> Command:
            ext = {"topic": topic, "acceptStandardJsonOnly": "true"}
            return connection.request(self._signed(make_request(codes.GET_ROUTEINFO_BY_TOPIC, 0, ext)), self._timeout)

        answer = self._retry("name server", self._options.namesrv, ask)
        if answer.code == codes.TOPIC_NOT_EXIST:
            raise OptionError(f"topic {topic} has no route: create it, or check the option subscribe")
        if answer.code != codes.SUCCESS:
            raise ClusterUnavailable(f"the route of {topic}: the name server answered {answer.code}: {answer.remark}")
        return decode_body(answer.body, TopicRouteData)

    def _retry(self, what: str, addresses: tuple[str, ...], ask: Callable[[ClientConnection], T]) -> T:
        last: BolideError | None = None
        for attempt in range(ATTEMPTS):
            for address in addresses:
                try:
                    return ask(self._pool.get(address))
                except (ConnectionLost, RequestTimeout) as error:
                    last = error
                    self._pool.drop(address)
            if attempt < ATTEMPTS - 1:
                time.sleep(PAUSE_S * (attempt + 1))
        raise ClusterUnavailable(f"{what} at {', '.join(addresses)} did not answer after {ATTEMPTS} rounds: {last}")

    def _signed(self, command: Command) -> Command:
        return signed(command, self._options)


def signed(command: Command, options: SourceOptions) -> Command:
    """The command, with access key and signature when the options have them."""
    if options.access_key:
        sign_request(command.ext(), command.body, options.access_key, options.secret_key)
    return command


def _queue_ext(queue: Queue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue_id)}
