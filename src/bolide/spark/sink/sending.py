"""Sends the messages of a task, grouped by queue, with many requests in flight, and retries until they are stored.

Ordinary messages of a queue are sent together in one request. If a broker rejects a batch, its messages are resent
separately, so that a bad row does not affect the others. Half messages, delayed messages and messages with a born
timestamp cannot be sent in a batch: the requests of a run of such messages are written together. Temporary failures are
retried at another queue, unless the row specifies one. If two sends of a message are both stored, the message is
duplicated (at least once), or only one of the two half messages is committed.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

from bolide.errors import ConnectionLost, RequestTimeout
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.spark.errors import ClusterUnavailable
from bolide.spark.sink.bundles import Bundle
from bolide.spark.sink.elements import NO_TIME, Elements
from bolide.spark.sink.messages import Refusal
from bolide.spark.sink.queue_choice import QueueChoice
from bolide.spark.sink.send_frames import Frames
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.patient_requests import connections
from bolide.spark.source.queues import Queue
from bolide.transport.blocking import ClientConnection, Pending, PendingRun

STORED: Final = frozenset(
    {codes.SUCCESS, codes.FLUSH_DISK_TIMEOUT, codes.FLUSH_SLAVE_TIMEOUT, codes.SLAVE_NOT_AVAILABLE}
)
"""Response codes that mean that the message is in the broker's log."""
MAX_IN_BATCH: Final = 1024
MAX_IN_RUN: Final = 64
"""Maximum number of requests with one message each that are written together."""
MAX_GATHERED: Final = 8 * 1024 * 1024
"""Maximum total size in bytes of messages that wait for more messages of their queue."""
MAX_KEPT: Final = 64 * 1024 * 1024
"""Size in bytes of retained rows at which all messages are sent: a message retains its Arrow batch in memory."""
MAX_IN_FLIGHT: Final = 32 * 1024 * 1024
"""Maximum number of bytes in flight. A single request may be larger."""
NO_TIMERS: Final = "timer message is not enabled"
"""Remark of the system error with which a broker without timers rejects a deliver_time."""
ROUNDS_OF_REFUSAL: Final = 5
"""Number of responses "no permission" or "unknown topic" after which the result is final."""
PAUSE_S: Final = 0.2
LONGEST_PAUSE_S: Final = 2.0


Stored: TypeAlias = Callable[[Bundle, list[Command]], None]
"""Called with messages and the responses of the requests that stored them."""
Refused: TypeAlias = Callable[[Refusal], None]
Marks: TypeAlias = Callable[[str, str, int], str]
"""Called with a broker, its address, and the seconds since the message was born. Returns the properties of a half
message for this broker."""


@dataclass
class SendTally:
    """The results of the sends of a task."""

    stored: int = 0
    uncertain: int = 0
    """Number of sends without a response. The broker may have stored a message at an unknown position."""


@dataclass
class _Gathering:
    open: dict[Queue, Bundle] = field(default_factory=dict)
    size: int = 0
    kept: int = 0
    """Size in bytes of the rows that may wait."""


class Sender:
    """Sends for a task. Calls `stored` for every stored request, and `refused` for every row that is rejected."""

    def __init__(self, options: SinkOptions, stored: Stored, refused: Refused, marks: Marks | None = None) -> None:
        """With `marks`, sends half messages with these properties."""
        self.tally = SendTally()
        self._options = options
        self._stored = stored
        self._refused = refused
        self._marks = marks
        self._half = marks is not None
        self._frames = Frames(options.connection, self._half)
        self._most_singles = max(1, min(MAX_IN_RUN, options.sends_in_flight // 4))
        self._cluster = Cluster(options.connection)
        self._pool = connections(options.connection)
        self._gathering = _Gathering()
        self._flight: deque[Bundle] = deque()
        self._flying = 0
        self._requests = 0
        self._again: deque[Bundle] = deque()
        self._current: dict[str, Queue] = {}
        self._choice = QueueChoice(options, self._cluster, refused, self._pass_time)

    def close(self) -> None:
        """Close all connections, and discard messages that were not drained."""
        self._pool.close()
        self._cluster.close()

    def send(self, elements: Elements) -> None:
        """Add messages, waiting while too many bytes are in flight. Raises `ClusterUnavailable` at a deadline."""
        groups, targets = self._choice.targets(elements)
        if len(groups) == 1:
            if groups[0]:
                self._gather(elements, groups[0])
            return
        order = np.argsort(targets, kind="stable")
        end = 0
        for group, count in enumerate(np.bincount(targets, minlength=len(groups)).tolist()):
            end += count
            if count and groups[group]:
                self._gather(elements.only(order[end - count : end]), groups[group])

    def drain(self) -> None:
        """Wait until all messages are stored or rejected. Raises `ClusterUnavailable` at a deadline."""
        self._flush_all()
        while self._flight or self._again:
            self._step()

    # -- choosing a queue

    def _pass_time(self) -> None:
        """Pause, and process responses to earlier sends in the meantime."""
        until = time.monotonic() + PAUSE_S
        while (self._flight or self._again) and time.monotonic() < until:
            self._step()
        time.sleep(max(0.0, until - time.monotonic()))

    def _next(self, topic: str, queues: list[Queue], size: int) -> Queue:
        """Return the queue for a message of this size that fits any queue. Fills one queue after the other."""
        current = self._current.get(topic)
        bundle = None if current is None else self._gathering.open.get(current)
        if current is None or bundle is None or bundle.size + size > self._options.batch_bytes:
            current = self._current[topic] = self._choice.following(queues)
        return current

    # -- gathering

    def _gather(self, elements: Elements, queues: list[Queue]) -> None:
        """Add messages to the open bundles of these queues. Each message may go to any of the queues."""
        ends, data, most = elements.ends(), elements.bytes(), self._options.batch_bytes
        begin, count = 0, len(elements)
        while begin < count:
            single, stop = self._alike(elements, begin)
            size = int(ends[begin + 1] - ends[begin])
            queue = self._next(elements.topic, queues, size) if len(queues) > 1 else queues[0]
            bundle = self._gathering.open.get(queue)
            if bundle is not None and (bundle.single != single or bundle.size + size > most):
                self._flush(queue)
                bundle = None
            if bundle is None:
                bundle = self._gathering.open[queue] = Bundle(queue, single)
            limit = self._most_singles if single else MAX_IN_BATCH
            fitting = int(np.searchsorted(ends, ends[begin] + most - bundle.size, "right")) - 1
            end = max(begin + 1, min(stop, begin + limit - bundle.count, fitting))
            bundle.add(elements, begin, end, data[ends[begin] : ends[end]])
            self._gathering.size += int(ends[end] - ends[begin])
            if bundle.size >= most or bundle.count >= limit:
                self._flush(queue)
            elif self._gathering.size > MAX_GATHERED:
                self._flush(next(iter(self._gathering.open)))
            begin = end
        self._gathering.kept += elements.origin.batch.nbytes + len(data)
        if self._gathering.kept > MAX_KEPT:
            self._flush_all()

    def _alike(self, elements: Elements, begin: int) -> tuple[bool, int]:
        """Return whether a message needs a separate request, and the end of the messages like it."""
        alone = elements.alone
        if self._half or alone is None:
            return self._half, len(elements)
        others = np.flatnonzero(alone[begin:] != alone[begin])
        return bool(alone[begin]), begin + int(others[0]) if len(others) else len(elements)

    def _flush_all(self) -> None:
        for queue in list(self._gathering.open):
            self._flush(queue)
        self._gathering.kept = 0

    def _flush(self, queue: Queue) -> None:
        bundle = self._gathering.open.pop(queue, None)
        if bundle is not None:
            self._gathering.size -= bundle.size
            self._launch(bundle)

    # -- flying

    def _launch(self, bundle: Bundle) -> None:
        while (self._flight or self._again) and (
            self._open_requests() + bundle.requests > self._options.sends_in_flight
            or self._flying + bundle.size > MAX_IN_FLIGHT
        ):
            self._step()
        bundle.deadline = time.monotonic() + self._options.patience
        self._start(bundle)

    def _open_requests(self) -> int:
        return self._requests + sum(bundle.requests for bundle in self._again)

    def _start(self, bundle: Bundle) -> None:
        bundle.pending = bundle.run = None
        master = self._cluster.master(bundle.queue.broker)
        if master:
            try:
                self._request(bundle, master)
            except (ConnectionLost, RequestTimeout) as error:
                bundle.reason = str(error)
        else:
            bundle.reason = f"no master of broker {bundle.queue.broker} is registered: its slaves take no messages"
        self._flight.append(bundle)
        self._flying += bundle.size
        self._requests += bundle.requests

    def _request(self, bundle: Bundle, address: str) -> None:
        now = int(time.time() * 1000)
        if not bundle.single and bundle.count > 1:
            command = self._frames.batch(bundle, now)
            bundle.connection = self._pool.get(address)
            bundle.pending = bundle.connection.start(command, self._options.timeout)
            return
        marks = self._marks_of(bundle, address, now)
        bundle.connection = self._pool.get(address)
        bundle.run = bundle.connection.start_run(
            lambda opaque: self._frames.run(bundle, marks, now, opaque), bundle.count, self._options.timeout
        )

    def _marks_of(self, bundle: Bundle, address: str, now: int) -> list[str]:
        marks = self._marks
        if marks is None:
            return [""] * bundle.count
        ages = [0 if born == NO_TIME else max(0, now - born) // 1000 for born in bundle.born()]
        made = {age: marks(bundle.queue.broker, address, age) for age in set(ages)}
        return [made[age] for age in ages]

    def _step(self) -> None:
        """Make progress: process the oldest response, or start the next pending retry."""
        now = time.monotonic()
        while self._again and (self._again[0].due <= now or not self._flight):
            bundle = self._again.popleft()
            time.sleep(max(0.0, bundle.due - now))
            self._choice.reroute(bundle)
            self._start(bundle)
            now = time.monotonic()
        if self._flight:
            self._settle(self._flight.popleft())

    def _settle(self, bundle: Bundle) -> None:
        self._flying -= bundle.size
        self._requests -= bundle.requests
        if bundle.connection is None or (bundle.pending is None and bundle.run is None):
            self._later(bundle)
            return
        if bundle.run is not None:
            self._settle_run(bundle, bundle.run, bundle.connection)
        elif bundle.pending is not None:
            self._settle_batch(bundle, bundle.pending, bundle.connection)

    def _settle_batch(self, bundle: Bundle, pending: Pending, connection: ClientConnection) -> None:
        try:
            answer = pending.result()
        except (ConnectionLost, RequestTimeout) as error:
            connection.close()  # this one, not its replacement
            self.tally.uncertain += bundle.count
            bundle.reason = str(error)
            self._later(bundle)
            return
        if answer.code in STORED:
            self.tally.stored += bundle.count
            self._stored(bundle, [answer])
            return
        bundle.reason, again, _ = self._judged(bundle, answer)
        if again:
            self._later(bundle)
        else:
            # One message is the cause. The others can be stored.
            self._again.append(bundle.singles())

    def _settle_run(self, bundle: Bundle, run: PendingRun, connection: ClientConnection) -> None:
        answers, error = run.results()
        stored = [answer for answer in answers if answer is not None and answer.code in STORED]
        self.tally.stored += len(stored)
        if stored:
            self._stored(bundle, stored)
        if len(stored) == bundle.count:
            return
        left = []
        for place, answer in enumerate(answers):
            if answer is None:
                self.tally.uncertain += 1
                bundle.reason = str(error)
                left.append(place)
            elif answer.code not in STORED:
                reason, again, of_the_row = self._judged(bundle, answer)
                if again:
                    bundle.reason = reason
                    left.append(place)
                else:
                    self._refused(bundle.refusal(place, reason, of_the_row=of_the_row))
        if error is not None:
            connection.close()  # this one, not its replacement
        if left:
            self._later(bundle if len(left) == bundle.count else bundle.singles(left))

    def _judged(self, bundle: Bundle, answer: Command) -> tuple[str, bool, bool]:
        """Return the reason of a failed request, whether to retry it, and whether its rows are the cause."""
        of_topic = answer.code in (codes.NO_PERMISSION, codes.TOPIC_NOT_EXIST)
        lasting = NO_TIMERS in (answer.remark or "") or (of_topic and bundle.tries >= ROUNDS_OF_REFUSAL)
        reason = f"broker {bundle.queue.broker} answered {answer.code}: {answer.remark}"
        return reason, answer.code in codes.RETRIED_CODES and not lasting, not of_topic

    def _later(self, bundle: Bundle) -> None:
        """Schedule a retry after an increasing pause. Raises `ClusterUnavailable` at the deadline."""
        now = time.monotonic()
        if now >= bundle.deadline:
            raise ClusterUnavailable(
                f"row {bundle.first_row} of this partition was not stored in topic {bundle.queue.topic} within "
                f"{self._options.patience:g} s: {bundle.reason}; check if its broker runs, or raise deliveryTimeoutMs"
            )
        bundle.tries += 1
        bundle.due = now + min(PAUSE_S * bundle.tries, LONGEST_PAUSE_S)
        self._again.append(bundle)
