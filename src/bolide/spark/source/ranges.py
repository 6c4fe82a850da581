"""Plans the task ranges of a micro-batch or batch read from offsets, without a cluster or session."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from bolide.spark.source.queues import Offsets, Queue

MANY: Final = 64
"""Number of ranges up to which each range is a task. Above it, small ranges share tasks."""
PACKED_ROWS: Final = 10_000
"""Maximum number of rows of a shared task. Starting a task takes as long as reading a few thousand rows."""


@dataclass(frozen=True, order=True)
class Range:
    """Offsets [begin, end) of a queue."""

    queue: Queue
    begin: int
    end: int

    @property
    def rows(self) -> int:
        """Number of offsets in the range. A filter may reduce the number of rows."""
        return self.end - self.begin


def limit_offsets(start: Mapping[Queue, int], latest: Mapping[Queue, int], limit: int) -> Offsets:
    """Return the end of a micro-batch of at most `limit` offsets (0: all), so that no queue starves.

    Each queue with lag gets one offset. The rest of the limit is shared in proportion to the remaining lag, rounded
    down. The queues with the largest remainders get the offsets lost by rounding, so the sum is the limit. If more
    queues than `limit` have lag, they take turns.
    """
    lag = {queue: max(end - start.get(queue, 0), 0) for queue, end in latest.items()}
    total = sum(lag.values())
    if limit <= 0 or total <= limit:
        return {queue: start.get(queue, 0) + lag[queue] for queue in latest}
    lagging = [queue for queue in _in_turn(start, latest) if lag[queue]]
    parts = dict.fromkeys(latest, 0) | dict.fromkeys(lagging[:limit], 1)
    rest, remaining = limit - min(limit, len(lagging)), total - len(lagging)
    if rest:
        for queue in lagging:
            parts[queue] += (lag[queue] - 1) * rest // remaining
        left = limit - sum(parts.values())
        by_remainder = sorted(lagging, key=lambda queue: (-((lag[queue] - 1) * rest % remaining), queue))
        for queue in by_remainder[:left]:
            parts[queue] += 1
    return {queue: start.get(queue, 0) + parts[queue] for queue in latest}


def _in_turn(start: Mapping[Queue, int], latest: Mapping[Queue, int]) -> list[Queue]:
    """Return the queues in order of their turns.

    The offsets are the only state that survives a restart. A batch of `limit` offsets increases their sum by `limit`,
    so the turn advances by `limit` queues and does not skip any of them.
    """
    queues = sorted(latest)
    if not queues:
        return queues
    first = sum(start.get(queue, 0) for queue in queues) % len(queues)
    return queues[first:] + queues[:first]


def split(start: Mapping[Queue, int], end: Mapping[Queue, int], most: int, least_parts: int = 0) -> list[Range]:
    """Return the ranges of all queues with messages, in queue order, each at most `most` long (0: unlimited).

    Splits longer queues until there are `least_parts` ranges, or as many ranges as rows.
    """
    rows_of = {queue: rows for queue in sorted(end) if (rows := end[queue] - start.get(queue, 0)) > 0}
    parts = {queue: 1 if most <= 0 else -(-rows // most) for queue, rows in rows_of.items()}
    lacking = min(least_parts, sum(rows_of.values())) - sum(parts.values())
    if lacking > 0:
        # The queue with the longest parts gets the next split, so that the longest part is as short as possible.
        heap = [(-rows / parts[queue], queue) for queue, rows in rows_of.items()]
        heapq.heapify(heap)
        for _ in range(lacking):
            _, queue = heap[0]
            parts[queue] += 1
            heapq.heapreplace(heap, (-rows_of[queue] / parts[queue], queue))
    ranges: list[Range] = []
    for queue, rows in rows_of.items():
        begin, count = start.get(queue, 0), parts[queue]
        # Use equal parts: a short last part would leave its task idle while the others work.
        cuts = [begin + rows * part // count for part in range(count + 1)]
        ranges.extend(Range(queue, low, high) for low, high in pairwise(cuts))
    return ranges


def packed(ranges: Sequence[Range], least: int = 0) -> list[tuple[Range, ...]]:
    """Return the ranges of each task. Above `MANY` ranges, small neighbours share a task.

    A shared task has at most `PACKED_ROWS` rows, and at most its share of all rows. There are at least `least` tasks if
    there are that many ranges.
    """
    if len(ranges) <= MANY:
        return [(part,) for part in ranges]
    most = min(PACKED_ROWS, -(-2 * sum(part.rows for part in ranges) // (MANY - 1)))
    groups: list[list[Range]] = []
    room = 0
    for part in ranges:
        if not groups or part.rows > room:
            groups.append([])
            room = most
        groups[-1].append(part)
        room -= part.rows
    heap = [(-len(group), number, group) for number, group in enumerate(groups)]
    heapq.heapify(heap)
    while len(heap) < min(least, len(ranges)):
        _, number, group = heap[0]
        half = len(group) // 2
        heapq.heapreplace(heap, (half - len(group), number, group[half:]))
        heapq.heappush(heap, (-half, len(heap) + len(groups), group[:half]))
    return sorted(tuple(group) for _, _, group in heap)


def within(offsets: Mapping[Queue, int], low: int, high: int) -> Offsets:
    """Return the offsets, limited to `low` and `high`."""
    return {queue: min(max(offset, low), high) for queue, offset in offsets.items()}
