"""Reading one range of a queue in an executor: pulls in flight, answers in order, record bytes out.

The pull protocol gives at most 32 messages an answer, so a reader that waits for each answer spends its time waiting.
Without a filter the answers' offsets are known beforehand: several pulls go out at once, each for its own stretch. An
answer may be shorter than its stretch (a size limit of the broker); the gap is then pulled before the answers behind
it are used, and later stretches are made that short. With a tag filter an answer may scan further than its stretch,
so one pull at a time is made.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Final

from bolide.errors import BolideError, ConnectionLost, RequestTimeout
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from bolide.spark.cluster import signed
from bolide.spark.errors import ClusterUnavailable, DataLost
from bolide.spark.options import SourceOptions
from bolide.spark.ranges import Range
from bolide.transport.blocking import ClientConnection, Pending

SUBSCRIPTION_IN_REQUEST: Final = 0x4
ATTEMPTS: Final = 5
PAUSE_S: Final = 0.5
EVERY_TAG: Final = "*"


class RangeReader:
    """Reads [begin, end) of one queue; `chunks()` yields record bytes, each with the offset that follows it."""

    def __init__(self, part: Range, addresses: tuple[str, ...], options: SourceOptions) -> None:
        self._part = part
        self._addresses = addresses
        self._options = options
        self._timeout = options.request_timeout_ms / 1000
        self._connection: ClientConnection | None = None
        self._stretch = options.pull_batch_size
        self._depth = options.pulls_in_flight if options.tags == EVERY_TAG else 1
        self._failures = 0

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def chunks(self) -> Iterator[tuple[bytes, int]]:
        """Record bytes in queue order. Raises DataLost or ClusterUnavailable."""
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
                self._pause(error)

    def _run(self, offset: int) -> Iterator[tuple[bytes, int]]:
        """Pull from `offset` to the end of the range, or until an answer has nothing where something should be."""
        connection = self._connected()
        flight: deque[tuple[int, int, Pending]] = deque()
        ahead = offset
        try:
            while offset < self._part.end:
                while len(flight) < self._depth and ahead < self._part.end:
                    count = min(self._stretch, self._part.end - ahead)
                    flight.append((ahead, count, connection.start(self._pull(ahead, count), self._timeout)))
                    ahead += count
                begin, count, pending = flight.popleft()
                body, offset, advanced = self._take(pending.result(), begin)
                if not advanced:
                    return
                yield body, offset
                if self._depth > 1 and offset < begin + count:
                    self._stretch = max(1, offset - begin)
                    for gap, reached in self._fill(connection, offset, begin + count):
                        offset = reached
                        yield gap, offset
                    if offset < begin + count:
                        return
                ahead = max(ahead, offset) if self._depth > 1 else offset
        finally:
            if flight:
                self.close()  # answers still to come belong to stretches nobody waits for any more

    def _fill(self, connection: ClientConnection, offset: int, end: int) -> Iterator[tuple[bytes, int]]:
        while offset < end:
            answer = connection.request(self._pull(offset, end - offset), self._timeout)
            body, offset, advanced = self._take(answer, offset)
            if not advanced:
                return
            yield body, offset

    def _take(self, answer: Command, asked: int) -> tuple[bytes, int, bool]:
        """Body, following offset, and whether the answer led anywhere."""
        code = answer.code
        if code == codes.PULL_NOT_FOUND:
            return b"", asked, False
        if code in (codes.SUCCESS, codes.PULL_RETRY_IMMEDIATELY):
            header = decode_header(answer, PullMessageResponseHeader)
            return answer.body, header.next_begin_offset, header.next_begin_offset > asked
        if code == codes.PULL_OFFSET_MOVED:
            header = decode_header(answer, PullMessageResponseHeader)
            return b"", self._moved(asked, header), True
        raise ClusterUnavailable(f"{self._part.queue} at offset {asked}: the broker answered {code}: {answer.remark}")

    def _moved(self, asked: int, header: PullMessageResponseHeader) -> int:
        low, high = header.min_offset, header.max_offset
        queue, end = self._part.queue, self._part.end
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"offset {asked} of {queue} is gone: the broker holds {low} to {high}; set failOnDataLoss to false "
                "to go on with what is left"
            )
        return min(max(asked, low), end) if asked < low else end

    def _pull(self, offset: int, count: int) -> Command:
        queue = self._part.queue
        header = PullMessageRequestHeader(
            consumer_group=self._options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=SUBSCRIPTION_IN_REQUEST,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription=self._options.tags,
            expression_type="TAG",
        )
        return signed(make_request(codes.PULL_MESSAGE, 0, header.to_ext()), self._options)

    def _connected(self) -> ClientConnection:
        if self._connection is not None:
            return self._connection
        last: BolideError | None = None
        for address in self._addresses:
            try:
                self._connection = ClientConnection.connect(address, self._timeout)
                return self._connection
            except ConnectionLost as error:
                last = error
        raise last or ClusterUnavailable(f"no address of broker {self._part.queue.broker} is known")

    def _wait_for_more(self) -> bool:
        """The broker has nothing where something should be: wait and see. False to go on with what there is."""
        self._failures += 1
        if self._failures < ATTEMPTS:
            time.sleep(PAUSE_S * self._failures)
            return True
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{self._where()}: the broker has fewer messages than when the batch was planned; set failOnDataLoss "
                "to false to go on with what is left"
            )
        return False

    def _pause(self, error: BolideError) -> None:
        """Wait a little before the next try; give up after `ATTEMPTS` in a row."""
        self._failures += 1
        if self._failures >= ATTEMPTS:
            raise ClusterUnavailable(f"{self._where()}: given up after {ATTEMPTS} tries: {error}") from error
        time.sleep(PAUSE_S * self._failures)

    def _where(self) -> str:
        return f"{self._part.queue}, offsets {self._part.begin} to {self._part.end}"
