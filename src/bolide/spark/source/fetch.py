"""Reads a range of a queue in an executor, with several pulls in flight, and returns record bytes in queue order.

The broker decides how many messages a response contains: Bolide as many as a bulk pull allows, RocketMQ 32 by default,
8 from disk, or as many as fit into 256 KiB. A reader that waited for each response would mostly be idle. The first pull
shows how many offsets a response covers. Then several pulls are in flight, each for that many. A response may still be
shorter: then the gap is pulled before the later responses are used, later pulls request less, and occasionally a pull
requests more. With a filter at the broker, a response may cover more offsets than requested: `rows` drops duplicates.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting import codes
from bolide.remoting.bulk_pulls import bulk_ext
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageResponseHeader
from bolide.spark.errors import ClusterUnavailable, NotPermitted, OptionError
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.members import BrokerMembers
from bolide.spark.source.patient_requests import signed
from bolide.spark.source.pulls import pull_fields
from bolide.spark.source.ranges import Range
from bolide.spark.source.source_options import SourceOptions
from bolide.transport.blocking import ClientConnection, Pending

REMOVING: Final = "MESSAGE_WAS_REMOVING"
"""Remark of a response whose queue units refer to a deleted CommitLog file."""
ATTEMPTS: Final = 5
PAUSE_S: Final = 0.5
MAX_PAUSE_S: Final = 2.0
BYTES_IN_FLIGHT: Final = 16 * 1024 * 1024
"""Maximum size of all responses in flight in bytes, estimated by the last one."""
PROBE_EVERY: Final = 64
FILTERED_STRETCH: Final = 4096


def _steady(got: int) -> int:
    """Return the number of offsets to expect in later responses after a shortened one had `got`.

    Limits in messages are constant powers of two. With a limit in bytes, the number varies slightly. Every response
    that falls short costs another pull, so later pulls request less.
    """
    return got if got & (got - 1) == 0 else max(1, got - got // 12)


class RangeReader:
    """Reads [begin, end) of a queue. `chunks()` yields record bytes, each with the offset that follows it."""

    def __init__(
        self,
        part: Range,
        members: BrokerMembers,
        options: SourceOptions,
        pause_s: float = PAUSE_S,
        spare: dict[str, ClientConnection] | None = None,
    ) -> None:
        """Uses an idle connection from `spare`, by address, if there is one. Returns it after the last response."""
        self._spare = spare
        self._part = part
        self._pause_s = pause_s
        self._members = members
        self._asked = ""
        """Address of the last response."""
        self._first = 0
        """Index of the address at which the search for a connection starts."""
        self._options = options
        self._filtered = options.filters.at_broker
        self._timeout = options.request_timeout_ms / 1000
        self._patience = options.retry_timeout_ms / 1000
        self._tls = options.tls.context()
        self._connection: ClientConnection | None = None
        self._stretch = 0
        """Number of offsets that a pull requests, 0 before the first response."""
        self._depth = options.pulls_in_flight
        self._sent = 0
        fields = pull_fields(options.group, part.queue, subscription=options.filters.expression)
        self._fields = {**fields, **bulk_ext()}
        self._failures = 0
        self._failing_since = 0.0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Yield record bytes in queue order, and close at the end. Raises `DataLost` if messages have expired,
        `ClusterUnavailable` after the retry timeout, and `OptionError` if the broker rejects the SQL filter."""
        try:
            yield from self._chunks()
            if self._spare is not None and self._connection is not None and not self._connection.closed:
                self._spare[self._connection.address] = self._connection
                self._connection = None
        finally:
            self.close()

    def _chunks(self) -> Iterator[tuple[bytes, int]]:
        offset = self._part.begin
        while offset < self._part.end:
            try:
                for body, following in self._run(offset):
                    offset = following
                    self._failures = 0
                    if body:
                        yield body, following
                if offset < self._part.end and not self._wait_for_more():
                    return
            except (ConnectionLost, RequestTimeout) as error:
                self.close()
                if isinstance(error, RequestTimeout):
                    self._first += 1  # a broker that hangs accepts connections: try its replica
                self._pause(error)

    def _run(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Pull from `offset` to the end of the range, or until a response lacks messages that should exist."""
        connection = self._connected()
        self._asked = connection.address
        flight: deque[tuple[int, int, Pending]] = deque()
        ahead = offset
        try:
            while offset < self._part.end:
                while len(flight) < (self._depth if self._stretch else 1) and ahead < self._part.end:
                    count = min(self._next_stretch(), self._part.end - ahead)
                    flight.append((ahead, count, connection.start(self._pull(ahead, count), self._timeout)))
                    ahead += count
                begin, count, pending = flight.popleft()
                body, reached, advanced = self._take(pending.result(), begin)
                if not advanced:
                    return
                self._learn(count, reached - begin, len(body))
                if reached > offset:
                    offset = reached
                    yield body, offset
                while offset < begin + count:
                    gap = connection.request(self._pull(offset, begin + count - offset), self._timeout)
                    body, reached, advanced = self._take(gap, offset)
                    if not advanced:
                        return
                    offset = reached
                    yield body, offset
                ahead = max(ahead, offset)
        finally:
            if flight:
                self.close()  # pending responses are no longer needed

    def _next_stretch(self) -> int:
        """Return the number of offsets that the next pull requests."""
        most = self._options.pull_batch_size
        self._sent += 1
        if not self._stretch:
            return most
        if not self._filtered and self._sent % PROBE_EVERY == 0:
            return min(2 * self._stretch, most)
        return self._stretch

    def _learn(self, asked: int, got: int, size: int) -> None:
        """Adapt later pulls to a response that covered `got` offsets and had `size` bytes."""
        self._depth = max(1, min(self._options.pulls_in_flight, BYTES_IN_FLIGHT // max(size, 1)))
        if self._filtered:
            if got > self._stretch:
                self._stretch = max(1, min(got, FILTERED_STRETCH))
        elif not self._stretch or (asked > self._stretch and got > self._stretch):
            self._stretch = got if got == asked else _steady(got)
        elif got < asked == self._stretch:
            self._stretch = _steady(got)

    def _take(self, answer: Command, asked: int) -> tuple[bytes, int, bool]:
        """Return the body, the following offset, and whether the response made progress."""
        code = answer.code
        if code == codes.PULL_NOT_FOUND:
            return b"", asked, False
        if code in (codes.SUCCESS, codes.PULL_RETRY_IMMEDIATELY):
            header = decode_header(answer, PullMessageResponseHeader)
            if answer.remark == REMOVING:
                self._lost(f"offset {asked} of {self._part.queue} is gone: the broker is deleting its file")
            return answer.body, header.next_begin_offset, header.next_begin_offset > asked
        if code == codes.PULL_OFFSET_MOVED:
            header = decode_header(answer, PullMessageResponseHeader)
            if header.min_offset <= asked < header.max_offset:
                return b"", asked, False  # an operator reset the group's offset: reported once, irrelevant here
            if not self._of_master():
                return b"", asked, False
            return b"", self._moved(asked, header), True
        where = f"{self._part.queue} at offset {asked}"
        if code in (codes.TOPIC_NOT_EXIST, codes.INVALID_PARAMETER):
            if not self._of_master():
                return b"", asked, False  # a slave copies a new topic, or more queues, up to a minute later
            self._lost(f"{where}: the broker no longer has this queue ({answer.remark})", "continue without it")
            return b"", self._part.end, True
        if code in (codes.SYSTEM_BUSY, codes.SYSTEM_ERROR) and "to filter message" not in (answer.remark or ""):
            raise RequestTimeout(f"{where}: the broker returned {code}: {answer.remark}")
        if self._options.filters.sql and code in (codes.SYSTEM_ERROR, codes.SUBSCRIPTION_PARSE_FAILED):
            raise OptionError(
                f"option sql: the broker of {self._part.queue} rejected it with {code}: {answer.remark}; it needs "
                "enablePropertyFilter=true in its broker.conf and an expression of RocketMQ's SQL92"
            )
        if code == codes.NO_PERMISSION:
            raise NotPermitted(
                f"{where}: the broker rejects the pull: {answer.remark}; reading needs the right Sub to the topic and"
                f" to the group {self._options.group}"
            )
        raise ClusterUnavailable(f"{where}: the broker returned {code}: {answer.remark}")

    def _moved(self, asked: int, header: PullMessageResponseHeader) -> int:
        low, high = header.min_offset, header.max_offset
        queue, end = self._part.queue, self._part.end
        self._lost(f"offset {asked} of {queue} is gone: the broker holds {low} to {high}")
        return min(max(asked, low), end) if asked < low else end

    def _pull(self, offset: int, count: int) -> Command:
        wanted = self._options.pull_batch_size if self._filtered else count
        ext = {**self._fields, "queueOffset": str(offset), "maxMsgNums": str(wanted)}
        return signed(make_request(codes.PULL_MESSAGE, 0, ext), self._options)

    def _connected(self) -> ClientConnection:
        if self._connection is not None:
            return self._connection
        last: BolideError | None = None
        addresses = self._members.addresses
        first = self._first % max(len(addresses), 1)
        for address in (*addresses[first:], *addresses[:first]):
            try:
                idle = self._spare.pop(address, None) if self._spare else None
                if idle is None or idle.closed:
                    idle = ClientConnection.connect(address, self._timeout, ssl=self._tls)
                self._connection = idle
                return self._connection
            except ConnectionLost as error:
                last = error
        raise last or ConnectionLost(f"no address of broker {self._part.queue.broker} is known")

    def _wait_for_more(self) -> bool:
        """Wait for messages that should exist but that the broker did not return. Returns False to skip them."""
        self._count_failure()
        if self._failures >= ATTEMPTS and self._of_master():
            self._lost(f"{self._where()}: the broker has fewer messages than when the batch was planned")
            return False
        if self._asked != self._members.master:
            if self._failures >= ATTEMPTS and not self._is_patient():
                raise ClusterUnavailable(
                    f"{self._where()}: no master of broker {self._part.queue.broker} responded, and its replica at "
                    f"{self._asked} does not return these messages: start the master, or promote a replica"
                )
            if self._failures > 1:
                self._find_broker()
            self.close()  # the master may be back
            self._first = 0
        time.sleep(min(self._pause_s * self._failures, MAX_PAUSE_S))
        return True

    def _of_master(self) -> bool:
        """Return whether the last response came from the master. A replica may lag, so it does not prove a loss.

        Queries the name servers, because a master that was replaced since then is a replica.
        """
        if self._asked == self._members.master:
            self._find_broker()
        return self._asked == self._members.master

    def _lost(self, what: str, instead: str = "continue with what is left") -> None:
        data_lost(what, self._options.fail_on_data_loss, instead)

    def _pause(self, error: BolideError) -> None:
        """Wait before the next try, and refresh the broker's addresses. Raises `ClusterUnavailable` after the retry
        timeout."""
        self._count_failure()
        if self._failures >= ATTEMPTS and not self._is_patient():
            raise ClusterUnavailable(f"{self._where()}: given up after {self._failures} tries: {error}") from error
        time.sleep(min(self._pause_s * self._failures, MAX_PAUSE_S))
        if self._failures > 1:
            self._find_broker()

    def _find_broker(self) -> None:
        """Refresh the addresses: a restarted broker may have a new one, and a replica may be the master now."""
        queue = self._part.queue
        cluster = Cluster(self._options, self._pause_s)
        try:
            cluster.queues([queue.topic], tolerant=True)
        except BolideError:
            return  # no name server responds: keep the known addresses
        finally:
            cluster.close()
        found = cluster.members(queue.broker)
        if found.addresses:
            self._members = found

    def _count_failure(self) -> None:
        if self._failures == 0:
            self._failing_since = time.monotonic()
        self._failures += 1

    def _is_patient(self) -> bool:
        return time.monotonic() - self._failing_since < self._patience

    def _where(self) -> str:
        return f"{self._part.queue}, offsets {self._part.begin} to {self._part.end}"
