"""Commits or rolls back half messages on their brokers, each exactly once, despite failures.

A broker responds to END_TRANSACTION when the message is stored under its real topic. A repeated request has no effect
(Bolide) or stores the message again (Java). So a request is repeated only for messages that are proven invisible: a
stored message contains the physical offset of its half message, and follows `tails`, the end of its queue before the
first END was sent. A Java broker may still process a request of a closed connection, but drops requests that have
waited for 3 s, so the check waits longer.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import ClassVar, Final

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.layout.columns import RecordColumns, chain_starts
from bolide.layout.names import HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC, TRANSACTION_GROUP
from bolide.layout.properties import property_value
from bolide.layout.property_names import CHECK_IMMUNITY_TIME_IN_SECONDS, PGROUP, TRAN_MSG
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import encode, make_request
from bolide.spark.errors import ClusterUnavailable, DataLost, NotPermitted
from bolide.spark.sink.frame_template import FrameTemplate
from bolide.spark.sink.half_handles import HalfHandle, HalfRun, Handles, runs_of
from bolide.spark.sink.sink_options import SinkOptions
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.fetch import RangeReader
from bolide.spark.source.members import master_alone
from bolide.spark.source.patient_requests import connections, signed
from bolide.spark.source.queues import EARLIEST, Offsets, Queue
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import reading_over
from bolide.transport.blocking import ClientConnection, PendingRun

COMMIT: Final = 8
ROLLBACK: Final = 12
IN_FLIGHT: Final = 512
TOGETHER: Final = 128
"""Number of requests that are written together."""
LATE_S: Final = 5.0
"""Seconds after which a Java broker drops an END of a lost connection (waitTimeMillsInTransactionQueue is 3 s)."""
PAUSE_S: Final = 0.3


@dataclass(frozen=True)
class BrokerKind:
    """The kind of a broker, according to its first response."""

    repeats: bool
    """Whether a repeated END has a second effect, as at every broker except Bolide."""
    half_end: int
    """Offset that the next half message would get."""


def broker_kind(connection: ClientConnection, options: SinkOptions) -> BrokerKind:
    """Query the end of a broker's half queue. The language of the response shows the kind of the broker."""
    question = make_request(codes.GET_MAX_OFFSET, 0, {"topic": HALF_TOPIC, "queueId": "0"})
    answer = connection.request(signed(question, options.connection), options.timeout)
    offset = answer.ext().get("offset", "") if answer.code == codes.SUCCESS else ""
    return BrokerKind(answer.language != codes.PYTHON, int(offset) if offset.isdecimal() else -1)


def half_marks(kind: BrokerKind, group: str, seconds: int) -> str:
    """Return the properties that make a message a half message, which may be ended for `seconds` after its birth.

    Bolide does not check it for that time. Java would store it again at every check for that time, and does not need
    the property: it ends a half message by its first position even after it gave up the checks.
    """
    marks = f"{TRAN_MSG}\x01true\x02{PGROUP}\x01{group}\x02"
    return marks if kind.repeats else f"{marks}{CHECK_IMMUNITY_TIME_IN_SECONDS}\x01{seconds}\x02"


def producer_group(options: SinkOptions, query: str, batch: int) -> str:
    """Return the producer group of the half messages of a batch, which all processes use."""
    return f"{options.connection.group}-{query}-{batch}"


@dataclass
class _Unended:
    """Half messages that were not ended, with the reason."""

    halves: list[HalfHandle] = field(default_factory=list)
    reason: str = ""
    """Text of the last failure."""
    decided_before: int = 0
    """Number of half messages that were committed or rolled back before."""


class Ender:
    """Ends the half messages of a batch. Use it from one thread, and `close` it."""

    late: ClassVar[float] = LATE_S
    together: ClassVar[int] = TOGETHER

    def __init__(self, options: SinkOptions, query: str, batch: int) -> None:
        self._options = options
        self._batch = batch
        self._group = producer_group(options, query, batch)
        self._cluster = Cluster(options.connection)
        self._pool = connections(options.connection)
        self._kinds: dict[str, BrokerKind] = {}
        self._topics: set[str] = set()

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()
        self._cluster.close()

    def tails(self, handles: Handles) -> Offsets:
        """Return the ends of the queues of these half messages. Raises `ClusterUnavailable` if brokers do not respond.

        The result is empty if this user has only the right `Pub`. An interrupted commit then needs more rights.
        """
        until = time.monotonic() + self._options.patience
        while True:
            try:
                self._locate(handles.by_queue)
                return self._cluster.latest(list(handles.by_queue))
            except NotPermitted:
                return {}
            except BolideError as error:
                self._wait(until, f"the end of {len(handles.by_queue)} queues is not known: {error}")

    def commit(self, handles: Handles, tails: Offsets, begun: bool) -> None:
        """Make all half messages visible. `begun` means that an earlier run may have started. Raises
        `ClusterUnavailable` if brokers do not respond, or `DataLost` if half messages were given up."""
        until = time.monotonic() + self._options.patience
        left: Handles | list[HalfHandle] = handles  # a list of a million takes memory, and is usually not needed
        doubtful = begun
        while left:
            try:
                self._locate(left.by_queue if isinstance(left, Handles) else {half.queue for half in left})
                if doubtful:
                    self._settle(left)
                    left = self._invisible(left, tails)
                doubtful = True
                unended = self._end(left, COMMIT)
                left, reason = unended.halves, unended.reason
                if left and unended.decided_before == len(left):
                    self._see(left, tails)
                    return
            except (DataLost, NotPermitted):
                raise
            except BolideError as error:
                reason = str(error)
            if left:
                self._wait(until, f"{len(left)} of {len(handles)} half messages are not committed: {reason}")

    def roll_back(self, halves: Iterable[HalfHandle]) -> int:
        """Roll back half messages. Returns the number of failures; their brokers give up those messages later."""
        left = list(halves)
        if not left:
            return 0
        try:
            self._locate({half.queue for half in left})
            return len(self._end(left, ROLLBACK).halves)
        except BolideError:
            return len(left)

    def half_ends(self, topics: Iterable[str], brokers: Iterable[str]) -> dict[str, int]:
        """Return the ends of the half queues of these brokers, without brokers that do not respond.

        Finds the brokers by the routes of `topics` and of the topics used so far.
        """
        ends = {}
        try:
            self._locate(Queue(topic, "", 0) for topic in topics)
        except BolideError:
            pass  # the result omits brokers without an address
        for broker in brokers:
            try:
                ends[broker] = self._kind(broker, fresh=True).half_end
            except BolideError:
                continue
        return ends

    def half_progress(self, brokers: Iterable[str]) -> dict[str, int]:
        """Return, by broker, the half queue offset before which all is decided, stored as a consumer offset."""
        queues = [Queue(HALF_TOPIC, broker, 0) for broker in brokers]
        found = self._cluster.committed(queues, TRANSACTION_GROUP, EARLIEST)
        return {queue.broker: offset for queue, offset in found.items()}

    def strays(self, since: dict[str, int], ends: dict[str, int], chosen: Set[tuple[str, int]]) -> Iterator[HalfHandle]:
        """Yield the half messages in a range of the half queues that are not among `chosen`.

        Only half messages of this and earlier batches: this driver may have been replaced, with a later batch running.
        """
        base = self._group.removesuffix(str(self._batch))
        for broker, end in ends.items():
            begin = since.get(broker, -1)
            if not 0 <= begin < end:
                continue
            half_queue = Queue(HALF_TOPIC, broker, 0)
            for data in self._tail(half_queue, begin, end, data_may_be_gone=True):
                for record in decode_records(data):
                    group = property_value(record.properties, PGROUP) or ""
                    batch = group.removeprefix(base)
                    if batch == group or not batch.isdecimal() or int(batch) > self._batch:
                        continue
                    if (broker, record.physical_offset) not in chosen:
                        yield HalfHandle(half_queue, record.queue_offset, record.physical_offset, group)

    # -- inside

    def _wait(self, until: float, what: str) -> None:
        if time.monotonic() >= until:
            raise ClusterUnavailable(
                f"{what}; no message is lost: restart the query when the brokers run, or raise deliveryTimeoutMs"
            )
        time.sleep(PAUSE_S)
        # Drop the route and the connection: a restarted broker may have another address.
        self._pool.close()
        self._cluster.close()
        self._cluster = Cluster(self._options.connection)
        self._kinds.clear()

    def _locate(self, queues: Iterable[Queue]) -> None:
        """Look up the addresses of the brokers of these queues."""
        wanted = list(queues)
        self._topics.update(queue.topic for queue in wanted if queue.topic != HALF_TOPIC)
        self._cluster.queues(sorted(self._topics))
        for queue in wanted:
            if queue.broker:
                self._address(queue.broker)

    def _address(self, broker: str) -> str:
        master = self._cluster.master(broker)
        if not master:
            raise ClusterUnavailable(
                f"no master of broker {broker} is registered with the name server: its slaves end no transactions"
            )
        return master

    def _kind(self, broker: str, fresh: bool = False) -> BrokerKind:
        if fresh or broker not in self._kinds:
            self._kinds[broker] = broker_kind(self._pool.get(self._address(broker)), self._options)
        return self._kinds[broker]

    def _settle(self, left: Iterable[HalfHandle]) -> None:
        """Wait until brokers that would repeat an END have processed or dropped the earlier requests."""
        if any(self._kind(broker).repeats for broker in {half.queue.broker for half in left}):
            time.sleep(self.late)

    def _invisible(self, left: Iterable[HalfHandle], tails: Offsets) -> list[HalfHandle]:
        """Return the half messages that are not yet stored under their real topic."""
        by_queue: dict[Queue, list[HalfHandle]] = {}
        for half in left:
            by_queue.setdefault(half.queue, []).append(half)
        try:
            ends = self._cluster.latest(list(by_queue))
            tails = tails | self._cluster.earliest([queue for queue in by_queue if queue not in tails])
        except NotPermitted as error:
            raise NotPermitted(
                f"the interrupted commit of batch {self._batch} cannot continue because this user may not read the "
                f"offsets of its topics: {error}; no message is lost: grant the right and restart the query"
            ) from error
        for broker in {queue.broker for queue in by_queue}:
            if not self._cluster.master_answered(broker):
                raise ClusterUnavailable(f"the master of broker {broker} does not respond")
        missing: list[HalfHandle] = []
        for queue, halves in by_queue.items():
            seen: set[int] = set()
            for data in self._tail(queue, tails[queue], ends[queue]):
                columns = RecordColumns(data, chain_starts(data))
                seen.update(columns.numbers("prepared_transaction_offset").tolist())
            missing.extend(half for half in halves if half.physical_offset not in seen)
        return missing

    def _tail(self, queue: Queue, begin: int, end: int, data_may_be_gone: bool = False) -> Iterator[bytes]:
        options = reading_over(self._options.connection)
        # Read only from the master: on a lagging replica, visible messages would look invisible.
        reader = RangeReader(Range(queue, begin, end), master_alone(self._address(queue.broker)), options)
        try:
            for data, _ in reader.chunks():
                yield data
        except DataLost:
            if not data_may_be_gone:
                raise
        finally:
            reader.close()

    def _end(self, halves: Handles | Iterable[HalfHandle], how: int) -> _Unended:
        """Send an END for each half message, and return the half messages that may not be ended."""
        flight: deque[tuple[HalfRun, PendingRun]] = deque()
        flying = 0
        unended = _Unended()
        down: set[str] = set()
        for run in runs_of(halves, self.together):
            while flight and flying + len(run) > IN_FLIGHT:
                flying -= len(flight[0][0])
                _settle(*flight.popleft(), unended)
            broker = run.queue.broker
            pending = None if broker in down else self.send_ends(run, how)
            if pending is None:
                down.add(broker)  # each further try would also wait for the timeout
                unended.halves += map(run.handle, range(len(run)))
                unended.reason = f"there is no connection to broker {broker}"
            else:
                flight.append((run, pending))
                flying += len(run)
        for each in flight:
            _settle(*each, unended)
        unended.halves.sort(key=lambda half: (half.queue, half.physical_offset))  # the order in which they were sent
        return unended

    def send_ends(self, run: HalfRun, how: int) -> PendingRun | None:
        """Send an END for each half message of a run. Returns None if there is no connection."""
        broker = run.queue.broker
        try:
            kind = self._kind(broker)
            common = {
                "producerGroup": run.group or self._group,
                "commitOrRollback": str(how),
                # Bolide rejects a late END unless it is the response to a check. Java has no such limit.
                "fromTransactionCheck": "false" if kind.repeats else "true",
                "topic": run.queue.topic,
                "bname": broker,
            }
            connection = self._pool.get(self._address(broker))
            return connection.start_run(
                lambda opaque: self._frames(run, common, opaque), len(run), self._options.timeout
            )
        except (ConnectionLost, RequestTimeout):
            return None

    def _frames(self, run: HalfRun, common: dict[str, str], opaque: int) -> list[bytes]:
        places = zip(run.half_offsets, run.physical_offsets, range(opaque, opaque + len(run)), strict=True)
        if not self._options.connection.access_key:
            template = FrameTemplate(codes.END_TRANSACTION, common)
            return [
                template.frame(
                    b'"tranStateTableOffset":"%d","commitLogOffset":"%d","msgId":"%d"' % (half, physical, half), number
                )
                for half, physical, number in places
            ]
        frames = []
        for half, physical, number in places:
            own = {"tranStateTableOffset": str(half), "commitLogOffset": str(physical), "msgId": str(half)}
            command = make_request(codes.END_TRANSACTION, number, common | own)
            frames.append(encode(signed(command, self._options.connection)))
        return frames

    def _see(self, decided: list[HalfHandle], tails: Offsets) -> None:
        """Wait until half messages that were decided before are visible. Raises `DataLost` if some were given up."""
        until = time.monotonic() + self.late
        lost = self._invisible(decided, tails)
        while lost and time.monotonic() < until:  # the message of a confirmed END may not be on disk yet
            time.sleep(PAUSE_S)
            lost = self._invisible(lost, tails)
        if lost:
            brokers = ", ".join(sorted({half.queue.broker for half in lost}))
            raise DataLost(
                f"{len(lost)} half messages of this batch, the first at {lost[0].physical_offset} of {lost[0].queue}, "
                f"were discarded by broker {brokers} before the batch was committed: find them in "
                f"{TRANS_CHECK_MAX_TIME_TOPIC}, and raise transactionSeconds"
            )


def _settle(run: HalfRun, pending: PendingRun, unended: _Unended) -> None:
    """Wait for the responses to a run. Raises `NotPermitted` if the user lacks the right `Pub`."""
    answers, error = pending.results()
    broker = run.queue.broker
    for place, answer in enumerate(answers):
        if answer is not None and answer.code == codes.SUCCESS and not answer.remark:
            continue
        if answer is None:
            unended.reason = str(error)
        else:
            unended.reason = f"broker {broker} answered {answer.code}: {answer.remark}"
            if answer.code == codes.NO_PERMISSION:
                raise NotPermitted(
                    f"{run.queue}: {unended.reason}; ending half messages needs the right Pub to the topic"
                )
            if answer.code == codes.SUCCESS:  # Bolide reports that a repeated END had no effect
                unended.decided_before += 1
        unended.halves.append(run.handle(place))
