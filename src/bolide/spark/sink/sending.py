"""Sends the messages of one task: grouped by queue, many requests in flight, retried until they are stored.

Ordinary messages of one queue are sent together in one request; a batch that a broker refuses is sent again message by
message, so that one bad row does not affect the others. Temporary failures are retried, at another queue unless the
row names one. Two sends of one message may both be stored: at least once, or, as half messages, with one of the two
never committed.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.layout.hashes import java_hash
from bolide.layout.names import AUTO_CREATE_TOPIC
from bolide.layout.sysflag import TRANSACTION_PREPARED
from bolide.remoting import codes
from bolide.remoting.batch import ELEMENT_FIXED, BatchMessage, encode_batch
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.send import SendMessageRequestHeaderV2
from bolide.spark.errors import ClusterUnavailable, TopicMissing
from bolide.spark.sink.messages import Outgoing, Refusal
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.patient_requests import connections, signed
from bolide.spark.source.queues import Queue
from bolide.transport.blocking import ClientConnection, Pending

STORED: Final = frozenset(
    {codes.SUCCESS, codes.FLUSH_DISK_TIMEOUT, codes.FLUSH_SLAVE_TIMEOUT, codes.SLAVE_NOT_AVAILABLE}
)
"""Answers after which the message is in the broker's log."""
MAX_IN_BATCH: Final = 1024
MAX_GATHERED: Final = 8 * 1024 * 1024
"""Bytes that wait for more messages of their queue, over all queues."""
MAX_IN_FLIGHT: Final = 32 * 1024 * 1024
"""Bytes in flight; a single request may be larger."""
NO_TIMERS: Final = "timer message is not enabled"
"""The remark with which a broker without timers answers a deliver_time, as a system error."""
ROUTE_S: Final = 2.0
ROUNDS_OF_REFUSAL: Final = 5
"""After this many answers no permission or unknown topic, the answer is final."""
PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 2.0


@dataclass(slots=True)
class Bundle:
    """Messages of one queue in one request."""

    queue: Queue
    messages: list[Outgoing]
    size: int
    deadline: float = 0.0
    tries: int = 0
    due: float = 0.0
    pending: Pending | None = None
    connection: ClientConnection | None = None
    reason: str = ""


Stored: TypeAlias = Callable[[Bundle, Command], None]
Refused: TypeAlias = Callable[[Refusal], None]
Marks: TypeAlias = Callable[[str, str, int], str]
"""(broker, its address, seconds since the message was born) -> properties that a half message carries there."""


@dataclass
class SendTally:
    """The results of the sends of a task."""

    stored: int = 0
    uncertain: int = 0
    """Sends without an answer: the broker may have a message whose position is unknown."""


@dataclass
class _Gathering:
    open: dict[Queue, Bundle] = field(default_factory=dict)
    size: int = 0


class Sender:
    """Sends for one task. Calls `stored` for every stored request, `refused` for every row that cannot be stored."""

    def __init__(self, options: SinkOptions, stored: Stored, refused: Refused, marks: Marks | None = None) -> None:
        """`marks`: send half messages, with these properties."""
        self.tally = SendTally()
        self._options = options
        self._stored = stored
        self._refused = refused
        self._marks = marks
        self._cluster = Cluster(options.connection)
        self._pool = connections(options.connection)
        self._gathering = _Gathering()
        self._flight: deque[Bundle] = deque()
        self._flying = 0
        self._again: deque[Bundle] = deque()
        self._current: dict[str, Queue] = {}
        self._known: dict[str, tuple[float, list[Queue]]] = {}
        self._turn = random.randrange(1 << 16)  # small tasks must not all start with the same queue
        self._unknown_until: float | None = None

    def close(self) -> None:
        """Close all connections; what was not drained is dropped."""
        self._pool.close()
        self._cluster.close()

    def send(self, message: Outgoing) -> None:
        """Add one message; waits while too much is in flight. Raises ClusterUnavailable."""
        queues = self._queues(message)
        if isinstance(queues, Refusal):
            self._refused(queues)
            return
        size = ELEMENT_FIXED + len(message.body) + len(message.properties)
        queue = self._choose(message, queues, size)
        if message.alone or self._marks is not None:
            self._flush(queue)  # earlier messages first
            self._launch(Bundle(queue, [message], size))
            return
        self._gather(queue, message, size)

    def drain(self) -> None:
        """Wait until everything is stored or refused. Raises ClusterUnavailable."""
        for queue in list(self._gathering.open):
            self._flush(queue)
        while self._flight or self._again:
            self._step()

    # -- choosing a queue

    def _queues(self, message: Outgoing) -> list[Queue] | Refusal:
        """The writable queues for a message, or its refusal if there are none. Raises ClusterUnavailable.

        A name server forgets a topic while its only broker restarts, so a task waits once for an unknown one. While
        the master of a set with acting masters is away, it shows no queue as writable; rows wait for the master then.
        """
        topic, number = message.topic, message.queue_id
        until, queues = self._known.get(topic, (0.0, []))
        begin = now = time.monotonic()
        known = now < until
        while True:
            try:
                if not known:
                    queues = self._cluster.queues([topic], writable=True)
                    self._known[topic] = now + ROUTE_S, queues
                fitting = queues if number is None else [queue for queue in queues if queue.queue_id == number]
                if fitting:
                    return fitting
                broker = self._cluster.closed(topic, number)
                if not broker and not queues:
                    return _refusal(message, "the topic has no writable queue: check its permission", of_the_row=False)
                if not broker:
                    return _refusal(message, f"the topic has no writable queue {number}")
                if now >= begin + self._options.patience:
                    raise ClusterUnavailable(
                        f"row {message.row} of this partition was not stored in topic {topic} within "
                        f"{self._options.patience:g} s: no master of broker {broker} is registered, and its slaves "
                        "take no messages; start it, or raise deliveryTimeoutMs"
                    )
                self._cluster.forget(topic)
            except TopicMissing:
                if self._unknown_until is None:
                    self._unknown_until = time.monotonic() + self._options.patience
                if time.monotonic() >= self._unknown_until:
                    reason = f"no name server knew the topic within {self._options.patience:g} s: create it"
                    return _refusal(message, reason, of_the_row=False)
            self._pass_time()
            known, now = False, time.monotonic()

    def _pass_time(self) -> None:
        """A pause in which answers to earlier sends are taken."""
        until = time.monotonic() + PAUSE_S
        while (self._flight or self._again) and time.monotonic() < until:
            self._step()
        time.sleep(max(0.0, until - time.monotonic()))

    def _choose(self, message: Outgoing, queues: list[Queue], size: int) -> Queue:
        if message.queue_id is not None:
            return queues[self._turn % len(queues)]
        if message.route_key:
            # As Java's SelectMessageQueueByHash: the remainder has the sign of the hash, then its absolute value.
            return queues[abs(java_hash(message.route_key)) % len(queues)]
        current = self._current.get(message.topic)
        bundle = None if current is None else self._gathering.open.get(current)
        if current is None or bundle is None or bundle.size + size > self._options.batch_bytes:
            self._turn += 1
            current = self._current[message.topic] = queues[self._turn % len(queues)]
        return current

    # -- gathering

    def _gather(self, queue: Queue, message: Outgoing, size: int) -> None:
        bundle = self._gathering.open.get(queue)
        if bundle is not None and bundle.size + size > self._options.batch_bytes:
            self._flush(queue)
            bundle = None
        if bundle is None:
            bundle = self._gathering.open[queue] = Bundle(queue, [], 0)
        bundle.messages.append(message)
        bundle.size += size
        self._gathering.size += size
        if bundle.size >= self._options.batch_bytes or len(bundle.messages) >= MAX_IN_BATCH:
            self._flush(queue)
        elif self._gathering.size > MAX_GATHERED:
            self._flush(next(iter(self._gathering.open)))

    def _flush(self, queue: Queue) -> None:
        bundle = self._gathering.open.pop(queue, None)
        if bundle is not None:
            self._gathering.size -= bundle.size
            self._launch(bundle)

    # -- flying

    def _launch(self, bundle: Bundle) -> None:
        while (self._flight or self._again) and (
            len(self._flight) + len(self._again) >= self._options.sends_in_flight
            or self._flying + bundle.size > MAX_IN_FLIGHT
        ):
            self._step()
        bundle.deadline = time.monotonic() + self._options.patience
        self._start(bundle)

    def _start(self, bundle: Bundle) -> None:
        bundle.pending = None
        master = self._cluster.master(bundle.queue.broker)
        if master:
            try:
                command = self._command(bundle, master)
                bundle.connection = self._pool.get(master)
                bundle.pending = bundle.connection.start(command, self._options.timeout)
            except (ConnectionLost, RequestTimeout) as error:
                bundle.reason = str(error)
        else:
            bundle.reason = f"no master of broker {bundle.queue.broker} is registered: its slaves take no messages"
        self._flight.append(bundle)
        self._flying += bundle.size

    def _step(self) -> None:
        """Make progress: process the oldest answer, or start what waits for its next try."""
        now = time.monotonic()
        while self._again and (self._again[0].due <= now or not self._flight):
            bundle = self._again.popleft()
            time.sleep(max(0.0, bundle.due - now))
            self._reroute(bundle)
            self._start(bundle)
            now = time.monotonic()
        if self._flight:
            self._settle(self._flight.popleft())

    def _settle(self, bundle: Bundle) -> None:
        self._flying -= bundle.size
        if bundle.pending is None or bundle.connection is None:
            self._later(bundle)
            return
        try:
            answer = bundle.pending.result()
        except (ConnectionLost, RequestTimeout) as error:
            bundle.connection.close()  # this one, not one that may have replaced it
            self.tally.uncertain += len(bundle.messages)
            bundle.reason = str(error)
            self._later(bundle)
            return
        if answer.code in STORED:
            self.tally.stored += len(bundle.messages)
            self._stored(bundle, answer)
            return
        bundle.reason = f"broker {bundle.queue.broker} answered {answer.code}: {answer.remark}"
        of_topic = answer.code in (codes.NO_PERMISSION, codes.TOPIC_NOT_EXIST)
        lasting = NO_TIMERS in (answer.remark or "") or (of_topic and bundle.tries >= ROUNDS_OF_REFUSAL)
        if answer.code in codes.RETRIED_CODES and not lasting:
            self._later(bundle)
        elif len(bundle.messages) > 1:
            for message in bundle.messages:  # one of them is the cause; the others are stored
                single = ELEMENT_FIXED + len(message.body) + len(message.properties)
                self._again.append(Bundle(bundle.queue, [message], single, bundle.deadline))
        else:
            self._refused(_refusal(bundle.messages[0], bundle.reason, of_the_row=not of_topic))

    def _later(self, bundle: Bundle) -> None:
        """Retry after a growing pause; give up at the deadline. Raises ClusterUnavailable."""
        now = time.monotonic()
        if now >= bundle.deadline:
            first = bundle.messages[0]
            raise ClusterUnavailable(
                f"row {first.row} of this partition was not stored in topic {first.topic} within "
                f"{self._options.patience:g} s: {bundle.reason}; check if its broker runs, or raise deliveryTimeoutMs"
            )
        bundle.tries += 1
        bundle.due = now + min(PAUSE_S * bundle.tries, LONGEST_PAUSE_S)
        self._again.append(bundle)

    def _reroute(self, bundle: Bundle) -> None:
        """Another queue for failed messages, unless the row names one; the set of brokers may have changed."""
        if not bundle.tries:
            return
        first = bundle.messages[0]
        try:
            self._cluster.relearn(bundle.queue.broker)
            queues = self._cluster.queues([first.topic], writable=True)
        except BolideError:
            return  # the name server does not answer either: the known queue may still work
        if not queues or first.route_key:
            return  # a key keeps its queue, or its messages would change their order
        others = [queue for queue in queues if queue.broker != bundle.queue.broker] or queues
        if first.queue_id is not None:
            others = [queue for queue in others if queue.queue_id == first.queue_id] or [bundle.queue]
        self._turn += 1
        bundle.queue = others[self._turn % len(others)]

    def _command(self, bundle: Bundle, address: str) -> Command:
        first = bundle.messages[0]
        now = int(time.time() * 1000)
        born = now if first.born_timestamp is None else first.born_timestamp
        batch = len(bundle.messages) > 1
        properties, body = first.properties, first.body
        if batch:
            properties = "WAIT\x01true\x02"
            body = encode_batch(
                [BatchMessage(each.flag, each.body, each.properties.encode()) for each in bundle.messages]
            )
        elif self._marks is not None:
            properties += self._marks(bundle.queue.broker, address, max(0, now - born) // 1000)
        header = SendMessageRequestHeaderV2(
            producer_group=self._options.connection.group,
            topic=first.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=4,
            queue_id=bundle.queue.queue_id,
            sys_flag=0 if self._marks is None else TRANSACTION_PREPARED,
            born_timestamp=born,
            flag=first.flag,
            properties=properties,
            reconsume_times=0,
            unit_mode=False,
            batch=batch,
            broker_name=bundle.queue.broker,
        )
        code = codes.SEND_BATCH_MESSAGE if batch else codes.SEND_MESSAGE_V2
        return signed(make_request(code, 0, header.to_ext(), body), self._options.connection)


def _refusal(message: Outgoing, reason: str, *, of_the_row: bool = True) -> Refusal:
    return Refusal(message.row, message.topic, reason, message.values, of_the_row)
