"""Determines offsets of queues by pulls, for a user who has the right `Sub` to a topic but not `Get`.

RocketMQ's consumers need only `Sub` to read. Brokers allow queries of offsets only with `Get`, but each response to a
pull contains both ends of its queue. A position by time is found by bisection, with a pull of one message per step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageResponseHeader
from bolide.spark.errors import ClusterUnavailable, NotPermitted
from bolide.spark.source.pulls import AT_ONCE, pull_of_one
from bolide.spark.source.queues import Offsets, Queue

WITH_ENDS: Final = frozenset(
    {codes.SUCCESS, codes.PULL_NOT_FOUND, codes.PULL_OFFSET_MOVED, codes.PULL_RETRY_IMMEDIATELY}
)
ATTEMPTS: Final = 5
"""Maximum number of pulls at a position, because the first pull after an operator's reset of an offset is empty."""

Question: TypeAlias = Callable[[Queue], tuple[int, dict[str, str]]]
Asking: TypeAlias = Callable[[list[Queue], Question, int], Iterable[tuple[Queue, Command]]]
"""Type of `ClusterRoutes.answers`."""


class PulledOffsets:
    """Offsets of a cluster's queues by pulls of a group. All results omit queues for which `exists` is false."""

    def __init__(self, ask: Asking, group: str, exists: Callable[[Queue], bool]) -> None:
        self._ask = ask
        self._group = group
        self._exists = exists
        self._last: Offsets = {}
        """Last known end of each queue. A pull from there returns only new messages."""

    def ends(self, queues: list[Queue]) -> dict[Queue, tuple[int, int]]:
        """Return the first offset and the end of each queue.

        Raises `NotPermitted` if the broker also rejects pulls, and `ClusterUnavailable` if it does not respond.
        """
        found: dict[Queue, tuple[int, int]] = {}
        for queue, answer in self._pulled({queue: self._last.get(queue, 0) for queue in queues}):
            header = decode_header(answer, PullMessageResponseHeader)
            found[queue] = header.min_offset, header.max_offset
            self._last[queue] = header.max_offset
        return found

    def by_time(self, times: Mapping[Queue, int]) -> Offsets:
        """Return each queue's first offset that was stored at its time (ms) or later, or its end if all are older.

        Raises the errors of `ends`.
        """
        between = self.ends(list(times))
        vain: Counter[Queue] = Counter()
        while middle := {queue: (low + high) // 2 for queue, (low, high) in between.items() if low < high}:
            left = set(middle)
            for queue, answer in self._pulled(middle):
                left.remove(queue)
                low, high = between[queue]
                between[queue] = _halved(low, middle[queue], high, answer, times[queue])
                vain[queue] = vain[queue] + 1 if between[queue] == (low, high) else 0
                if vain[queue] >= ATTEMPTS:
                    raise ClusterUnavailable(
                        f"{queue}: the broker holds offset {middle[queue]} and did not return its message in "
                        f"{ATTEMPTS} pulls, the last time with {answer.code}: {answer.remark}"
                    )
            for queue in left:
                del between[queue]
        return {queue: low for queue, (low, _) in between.items()}

    def _pulled(self, offsets: Offsets) -> Iterator[tuple[Queue, Command]]:
        """Pull one message per queue. Yields the responses that contain the ends of their queues."""
        for queue, answer in self._ask(
            sorted(offsets), lambda queue: pull_of_one(self._group, queue, offsets[queue]), AT_ONCE
        ):
            if answer.code in WITH_ENDS:
                yield queue, answer
            elif answer.code == codes.NO_PERMISSION:
                raise NotPermitted(
                    f"{queue}: the broker rejected a pull of group {self._group}: {answer.remark}; reading needs the "
                    "right Sub to the topic and to the group"
                )
            elif self._exists(queue):
                raise ClusterUnavailable(f"{queue}: the broker returned {answer.code}: {answer.remark}")


def _halved(low: int, middle: int, high: int, answer: Command, wanted: int) -> tuple[int, int]:
    """Return the remaining part of [low, high] after a pull at `middle`, or all of it if the pull must be repeated."""
    if answer.code == codes.SUCCESS:
        records = decode_records(answer.body)
        if not records:
            return low, high
        if records[0].store_timestamp >= wanted:
            return low, middle
        return max(records[0].queue_offset, middle) + 1, high
    header = decode_header(answer, PullMessageResponseHeader)
    if middle < header.min_offset:
        return min(header.min_offset, high), high
    if middle >= header.max_offset:
        return low, middle
    if answer.code != codes.PULL_OFFSET_MOVED and header.next_begin_offset > middle:
        return min(header.next_begin_offset, high), high  # the broker lacks the messages before it
    return low, high
