"""What the next batch of a stream covers, decided from a checkpoint and from what a cluster was found to have.

Values and functions without I/O: `stream_run` asks the brokers, and says what is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bolide.spark.source.marks import Marks
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.ranges import limit_offsets
from bolide.spark.source.stream_offset import StreamOffset


class Newest(NamedTuple):
    """The ends of the selected queues at one moment."""

    ends: Offsets
    masters: frozenset[str] = frozenset()
    """Brokers whose master returned them, not a replica."""


@dataclass(frozen=True)
class QueuesFound:
    """What a cluster has."""

    ends: Offsets
    """The ends of the selected queues."""
    first: Offsets = field(default_factory=dict)
    """First offsets of the queues in `ends` that the checkpoint lacks."""
    former: Offsets = field(default_factory=dict)
    """Ends of former queues of topics that became smaller, which the checkpoint lacks. They count as read."""
    forgotten: Collection[Queue] = frozenset()
    """Queues that no longer exist: the checkpoint need not contain them."""


@dataclass(frozen=True)
class BatchPlan:
    """A batch before its end is chosen."""

    start: StreamOffset
    seen: QueuesFound
    begin: Offsets
    """Where the batch begins, for each queue that its end will contain."""
    ahead: Offsets
    """Where it may end."""
    marks: Marks
    """The messages before `begin`, as recorded in the checkpoint."""
    again: Offsets = field(default_factory=dict)
    """First offsets of queues that were created again since the checkpoint: the batch reads them from there."""

    @property
    def rows(self) -> int:
        """Messages that can be read now."""
        return sum(end - self.begin[queue] for queue, end in self.ahead.items())

    @property
    def must_be_stored(self) -> bool:
        """Whether the end differs from the start even if no message is read."""
        return bool(self.again or self.seen.former or self.seen.forgotten)

    def created_again(self, first: Offsets, ends: Offsets) -> BatchPlan:
        """The plan if these queues are not the ones in the checkpoint, and have messages from `first` to `ends`."""
        return replace(
            self,
            begin={**self.begin, **first},
            ahead={**self.ahead, **ends},
            marks={queue: mark for queue, mark in self.marks.items() if queue not in first},
            again={**self.again, **first},
        )

    def read_here(self) -> Offsets:
        """Positions in the checkpoint that can be compared: those of queues that exist and have a mark."""
        there = self.start.reached.keys() & self.seen.ends.keys() & self.marks.keys()
        return {queue: self.begin[queue] for queue in there}

    def end(self, most: int) -> Offsets:
        """Where a batch of at most `most` messages ends (0: no limit)."""
        return limit_offsets(self.begin, self.ahead, most)

    def moves(self, end: Offsets) -> bool:
        """Whether a batch that ends there has messages."""
        return any(end[queue] != offset for queue, offset in self.begin.items())

    def advanced(self, end: Offsets) -> Offsets:
        """Of `read_here`, the positions from which a batch that ends there reads on."""
        return {queue: at for queue, at in self.read_here().items() if end[queue] != self.start.reached[queue]}

    def kept_marks(self, end: Offsets) -> Marks:
        """The marks of queues from which a batch that ends there reads nothing."""
        return {queue: mark for queue, mark in self.marks.items() if end.get(queue) == self.begin[queue]}

    def unmarked(self, end: Offsets) -> Offsets:
        """Ends of a batch whose messages before them must be requested."""
        kept = self.kept_marks(end)
        return {queue: offset for queue, offset in end.items() if queue not in kept and queue in self.seen.ends}

    def offset(self, end: Offsets, marks: Marks) -> StreamOffset:
        """The end of the batch as Spark stores it. `marks` are those of `unmarked` that were found."""
        begins = self.begin if self.start.initial else {**self.seen.first, **self.again}
        return StreamOffset(end, {**self.kept_marks(end), **marks}, begins)


def plan_batch(start: StreamOffset, seen: QueuesFound) -> BatchPlan:
    """The batch after a checkpoint, as long as no queue turns out to be another one."""
    begin = {**start.reached, **seen.first, **seen.former}
    begin = {queue: offset for queue, offset in begin.items() if queue not in seen.forgotten}
    # A queue that is missing for a moment, or was asked of a replica, keeps its position.
    ahead = {queue: max(offset, seen.ends.get(queue, offset)) for queue, offset in begin.items()}
    return BatchPlan(start, seen, begin, ahead, {queue: mark for queue, mark in start.marks.items() if queue in begin})


def shorter(reached: Mapping[Queue, int], ends: Mapping[Queue, int]) -> Offsets:
    """The ends of queues that end before the position that was reached."""
    return {queue: ends[queue] for queue, offset in reached.items() if ends.get(queue, offset) < offset}
