"""Offsets of queues by pulls, for a user who has the right `Sub` to a topic but not `Get`.

RocketMQ's consumers need only `Sub` to read. Brokers answer questions about offsets only with `Get`, but each response
to a pull contains both ends of its queue. A position by time is found by bisection, with a pull of one message for each
step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from bolide.layout.columns import RecordColumns, chain_starts
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from bolide.spark.errors import ClusterUnavailable, NotPermitted
from bolide.spark.source.queues import Offsets, Queue

SUBSCRIPTION_IN_REQUEST: Final = 0x4
AT_ONCE: Final = 8
"""Pulls in flight to one broker: each answer is a whole message."""
WITH_ENDS: Final = frozenset(
    {codes.SUCCESS, codes.PULL_NOT_FOUND, codes.PULL_OFFSET_MOVED, codes.PULL_RETRY_IMMEDIATELY}
)

Question: TypeAlias = Callable[[Queue], tuple[int, dict[str, str]]]
Asking: TypeAlias = Callable[[list[Queue], Question, int], Iterable[tuple[Queue, Command]]]
"""`ClusterRoutes.answers`."""


def pull_of_one(group: str, queue: Queue, offset: int) -> tuple[int, dict[str, str]]:
    """A request for one message that neither waits nor commits."""
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=1,
        sys_flag=SUBSCRIPTION_IN_REQUEST,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    return codes.PULL_MESSAGE, header.to_ext()


class PulledOffsets:
    """Offsets of a cluster's queues by pulls of a group."""

    def __init__(self, ask: Asking, group: str) -> None:
        self._ask = ask
        self._group = group
        self._last: Offsets = {}
        """Where a queue ended last: a pull from there returns no message if nothing is new."""

    def ends(self, queues: list[Queue], exists: Callable[[Queue], bool]) -> dict[Queue, tuple[int, int]]:
        """Return the first offset and the end of each queue. Queues that do not `exists` are left out.

        Raises NotPermitted if the broker refuses pulls too.
        """
        found: dict[Queue, tuple[int, int]] = {}
        for queue, answer in self._pulled({queue: self._last.get(queue, 0) for queue in queues}):
            if answer.code in WITH_ENDS:
                header = decode_header(answer, PullMessageResponseHeader)
                found[queue] = header.min_offset, header.max_offset
                self._last[queue] = header.max_offset
            elif answer.code == codes.NO_PERMISSION:
                raise NotPermitted(
                    f"{queue}: the broker refuses pulls of group {self._group}: {answer.remark}; reading needs the "
                    "right Sub to the topic and to the group"
                )
            elif exists(queue):
                raise ClusterUnavailable(f"{queue}: the broker answered {answer.code}: {answer.remark}")
        return found

    def by_time(self, times: Mapping[Queue, int], exists: Callable[[Queue], bool]) -> Offsets:
        """Return the first offset stored at each queue's time (ms) or later; the end if all messages are older."""
        between = self.ends(list(times), exists)
        while True:
            middle = {queue: (low + high) // 2 for queue, (low, high) in between.items() if low < high}
            if not middle:
                return {queue: low for queue, (low, _) in between.items()}
            for queue, answer in self._pulled(middle):
                low, high = between[queue]
                between[queue] = _halved(low, middle[queue], high, answer, times[queue])

    def _pulled(self, offsets: Offsets) -> Iterator[tuple[Queue, Command]]:
        yield from self._ask(sorted(offsets), lambda queue: pull_of_one(self._group, queue, offsets[queue]), AT_ONCE)


def _halved(low: int, middle: int, high: int, answer: Command, wanted: int) -> tuple[int, int]:
    """Return the part of [low, high] that is left when a pull at `middle` got this answer."""
    if answer.code == codes.SUCCESS:
        records = RecordColumns(answer.body, chain_starts(answer.body)[:1])
        if len(records) and int(records.numbers("store_timestamp")[0]) >= wanted:
            return low, middle
        return (int(records.numbers("queue_offset")[0]) if len(records) else middle) + 1, high
    if answer.code in WITH_ENDS:
        header = decode_header(answer, PullMessageResponseHeader)
        if middle < header.min_offset:
            return min(header.min_offset, high), high
        if middle >= header.max_offset:
            return low, middle
    return middle + 1, high
