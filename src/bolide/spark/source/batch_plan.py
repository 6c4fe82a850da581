"""Plans the next batch of a stream from a checkpoint and the current state of a cluster.

Values and functions without I/O: `stream_run` queries the brokers and reports lost messages.
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
    """The end offsets of the selected queues at one time."""

    ends: Offsets
    masters: frozenset[str] = frozenset()
    """Brokers whose master, not a replica, returned the offsets."""


@dataclass(frozen=True)
class QueuesFound:
    """The state of a cluster's queues."""

    ends: Offsets
    """End offsets of the selected queues."""
    first: Offsets = field(default_factory=dict)
    """First offsets of the queues in `ends` that the checkpoint lacks."""
    former: Offsets = field(default_factory=dict)
    """End offsets of former queues of shrunk topics that the checkpoint lacks. Those queues are treated as read."""
    forgotten: Collection[Queue] = frozenset()
    """Queues that no longer exist: the checkpoint need not contain them."""


@dataclass(frozen=True)
class BatchPlan:
    """A batch before its end is chosen."""

    start: StreamOffset
    seen: QueuesFound
    begin: Offsets
    """Start offset of each queue that the end of the batch will contain."""
    ahead: Offsets
    """Latest possible end of the batch."""
    marks: Marks
    """The messages before `begin`, as recorded in the checkpoint."""
    again: Offsets = field(default_factory=dict)
    """First offsets of queues that were recreated since the checkpoint. The batch reads these queues from there."""

    @property
    def rows(self) -> int:
        """Number of messages that can be read now."""
        return sum(end - self.begin[queue] for queue, end in self.ahead.items())

    @property
    def must_be_stored(self) -> bool:
        """Whether the end differs from the start even if no message is read."""
        return bool(self.again or self.seen.former or self.seen.forgotten)

    def created_again(self, first: Offsets, ends: Offsets) -> BatchPlan:
        """Return the plan for the case that the given queues were recreated, with messages from `first` to `ends`."""
        return replace(
            self,
            begin={**self.begin, **first},
            ahead={**self.ahead, **ends},
            marks={queue: mark for queue, mark in self.marks.items() if queue not in first},
            again={**self.again, **first},
        )

    def read_here(self) -> Offsets:
        """Checkpoint positions that can be compared: the positions of existing queues with a mark."""
        there = self.start.reached.keys() & self.seen.ends.keys() & self.marks.keys()
        return {queue: self.begin[queue] for queue in there}

    def end(self, most: int) -> Offsets:
        """Return the end of a batch of at most `most` messages; 0 means no limit."""
        return limit_offsets(self.begin, self.ahead, most)

    def moves(self, end: Offsets) -> bool:
        """Return whether a batch with this end contains messages."""
        return any(end[queue] != offset for queue, offset in self.begin.items())

    def advanced(self, end: Offsets) -> Offsets:
        """Return the positions of `read_here` from which a batch with this end continues."""
        return {queue: at for queue, at in self.read_here().items() if end[queue] != self.start.reached[queue]}

    def kept_marks(self, end: Offsets) -> Marks:
        """Return the marks of queues that a batch with this end does not read."""
        return {queue: mark for queue, mark in self.marks.items() if end.get(queue) == self.begin[queue]}

    def unmarked(self, end: Offsets) -> Offsets:
        """Return the end offsets whose preceding messages must be requested for their marks."""
        kept = self.kept_marks(end)
        return {queue: offset for queue, offset in end.items() if queue not in kept and queue in self.seen.ends}

    def offset(self, end: Offsets, marks: Marks) -> StreamOffset:
        """Return the end of the batch as Spark stores it. `marks` are the available marks of `unmarked`."""
        begins = self.begin if self.start.initial else {**self.seen.first, **self.again}
        return StreamOffset(end, {**self.kept_marks(end), **marks}, begins)


def plan_batch(start: StreamOffset, seen: QueuesFound) -> BatchPlan:
    """Plan the batch after a checkpoint, assuming that no queue was recreated."""
    begin = {**start.reached, **seen.first, **seen.former}
    begin = {queue: offset for queue, offset in begin.items() if queue not in seen.forgotten}
    # Keep the position of a queue that is temporarily missing or was queried at a replica.
    ahead = {queue: max(offset, seen.ends.get(queue, offset)) for queue, offset in begin.items()}
    return BatchPlan(start, seen, begin, ahead, {queue: mark for queue, mark in start.marks.items() if queue in begin})


def shorter(reached: Mapping[Queue, int], ends: Mapping[Queue, int]) -> Offsets:
    """Return the ends of queues that end before their position in `reached`."""
    return {queue: ends[queue] for queue, offset in reached.items() if ends.get(queue, offset) < offset}
