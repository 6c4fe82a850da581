"""A run of a streaming query: queries the cluster for the plan of the next batch, and reports lost messages.

Every start of a query, and every batch that reads from a queue, compares the last message read from the queue with the
message now at its offset. Queues that the options no longer select keep their positions, and are read from there if
they are selected again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from bolide.spark.source.batch_plan import BatchPlan, Newest, QueuesFound, plan_batch, shorter
from bolide.spark.source.bounds import begin_offsets, check_ends, hidden_ends
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.last_read import look
from bolide.spark.source.marks import Marks, changed
from bolide.spark.source.missing_queues import MissingQueues, made_again
from bolide.spark.source.newest_offsets import NewestOffsets
from bolide.spark.source.queues import LATEST, Offsets, Queue
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.source.stream_offset import StreamOffset, begins_of


class StreamRun:
    """The driver's part of a stream, in a process, from the start of a query to its end."""

    def __init__(self, cluster: Cluster, options: SourceOptions) -> None:
        self.cluster = cluster
        self.until: Newest | None = None
        """End of the batches of this run, or None for a continuous query."""
        self.newest: Newest | None = None
        """Newest offsets of the last plan."""
        self._options = options
        self._asked = NewestOffsets(cluster)
        self._missing = MissingQueues(cluster, options)
        self._first: Offsets = {}
        """First offsets of new queues at their discovery, because messages may expire while a batch waits for more."""
        self._unreadable: Offsets = {}
        """Ends of queues whose last message has expired and could not be read. It is not requested again."""
        self._told: Offsets = {}
        """Offsets that the group has committed."""
        self._batch_at: float | None = None
        """Time at which the last batch was planned."""
        self._compare_at: float | None = None
        """Next time to compare all last messages and search for former queues, as often as routes are refreshed.

        This is the only way to detect a topic that was recreated with as many messages as were read, or that grew and
        shrank between two batches. None before the first time in this run.
        """

    def start(self) -> StreamOffset:
        """Return the start of a new query. Raises `DataLost` if its first messages have expired."""
        start = begin_offsets(self.cluster, self._options, LATEST)
        check_ends(self.cluster, self._options, start, "read it from its first message")
        marks = look(self.cluster, self._options.group, start).marks
        # Record these queues now: messages that they get later would be read if the topic had them.
        former = hidden_ends(self.cluster, list(start), self._options)
        return StreamOffset({**start, **former}, marks, initial=True)

    def end_now(self) -> None:
        """Limit this run to the messages that exist now."""
        self.until = self._asked.ask()

    def end_at(self, ends: Offsets) -> None:
        """Limit this run to these offsets."""
        self.until = Newest(ends, self.newest.masters if self.newest else frozenset())

    def next_end(self, start: StreamOffset, most: int, least: int) -> StreamOffset | None:
        """Return the end of the next batch, or None if there are no or too few new messages.

        A batch has at most `most` messages (0: all), and at least `least` unless that takes too long. Raises `DataLost`
        if messages have expired, and `ClusterUnavailable` if the cluster does not respond.
        """
        newest = self.newest = self.until or self._asked.ask()
        all_now = self._compare_at is None or time.monotonic() >= self._compare_at
        plan = plan_batch(start, self._seen(start.reached, newest.ends, all_now))
        plan = self._created_again(plan, self._shorter(start.reached, newest))
        if all_now:
            plan = self._compared(plan, plan.read_here())
            self._compare_at = time.monotonic() + self._options.discovery_interval_ms / 1000
        if not plan.again and self._is_too_little(plan.rows, least):
            return None
        end = plan.end(most)
        if not plan.must_be_stored and not plan.moves(end):
            return None
        marks = self._marks(plan.unmarked(end))
        # Compare after reading the ends: this detects queues recreated before. The next batch detects later ones.
        compared = self._compared(plan, plan.advanced(end))
        if compared is not plan:
            plan, end = compared, compared.end(most)
            marks = self._marks(plan.unmarked(end))
        self._batch_at = time.monotonic()
        self._asked.hurry()
        return plan.offset(end, marks)

    def begins(self, start: StreamOffset, end: StreamOffset) -> Offsets:
        """Return the start of a planned batch by queue. Raises `DataLost` if its topic was recreated."""
        there = set(self.cluster.selected(tolerant=True))
        # Repeat a batch of an earlier run unchanged, although it may contain topics that are no longer selected.
        keeps = self._options.selection.keeps
        self.cluster.queues({queue.topic for queue in end.reached if not keeps(queue)}, tolerant=True)
        begin = begins_of(start, end)
        back = list(shorter(begin, end.reached))
        if back:  # planned by an earlier version: recreated while loss is allowed
            begin.update(self.cluster.earliest(back))
        if self._compare_at is None:
            # An earlier run planned this batch. Its messages of a recreated queue were deleted. The next batch compares
            # again, and reads that queue from its first message.
            read = {queue: end.reached[queue] for queue in end.marks if queue in there}
            read = {queue: offset for queue, offset in read.items() if offset > begin[queue]}
            for queue in self._others(read, end.marks):
                begin[queue] = end.reached[queue]
        return begin

    def tell_group(self, reached: Offsets) -> None:
        """Commit offsets for the group if the options enable commits."""
        if not self._options.commit_offsets:
            return
        keeps = self._options.selection.keeps
        moved = {queue: at for queue, at in reached.items() if self._told.get(queue) != at and keeps(queue)}
        if moved:
            self.cluster.commit(moved)
            self._told.update(moved)

    def _seen(self, reached: Offsets, ends: Offsets, all_now: bool) -> QueuesFound:
        fresh = [queue for queue in ends if queue not in reached]
        asked = [queue for queue in fresh if queue not in self._first]
        if asked:
            self._first.update(self.cluster.earliest(asked))
        former = hidden_ends(self.cluster, list(ends), self._options, reached) if all_now else {}
        forgotten = self._missing.forgotten(reached, ends, self.until is not None)
        return QueuesFound(ends, {queue: self._first[queue] for queue in fresh}, former, forgotten)

    def _shorter(self, reached: Offsets, newest: Newest) -> dict[Queue, str]:
        """Return the queues that, according to their master, end before their position in `reached`."""
        found = shorter(reached, newest.ends)
        brokers = {queue.broker for queue in found} & newest.masters
        masters = {broker for broker in brokers if self.cluster.surely_master_answered(broker)}
        return {queue: f"ends at {end} now" for queue, end in found.items() if queue.broker in masters}

    def _compared(self, plan: BatchPlan, read: Offsets) -> BatchPlan:
        """Compare the messages before these offsets. Returns the adapted plan, or `plan` if no queue was recreated."""
        return self._created_again(plan, changed(read, plan.marks, look(self.cluster, self._options.group, read)))

    def _created_again(self, plan: BatchPlan, other: Mapping[Queue, str]) -> BatchPlan:
        """Fail the query because of recreated queues, or plan to read them from their first message."""
        self._report(other, plan.begin)
        if not other:
            return plan
        first, ends = self.cluster.earliest(list(other)), self.cluster.latest(list(other))
        if self.until is not None:
            self.until = self.until._replace(ends={**self.until.ends, **ends})
        return plan.created_again(first, ends)

    def _others(self, read: Offsets, marks: Marks) -> list[Queue]:
        """Return the queues that were recreated since a batch was planned. Raises `DataLost` unless loss is allowed."""
        other = changed(read, marks, look(self.cluster, self._options.group, read))
        self._report(other, read)
        return list(other)

    def _report(self, other: Mapping[Queue, str], reached: Offsets) -> None:
        """Report recreated queues. Raises `DataLost` unless loss is allowed."""
        for queue, seen in other.items():
            self._missing.lost(made_again(queue, reached[queue], seen))

    def _marks(self, offsets: Offsets) -> Marks:
        """Return the marks of the messages before these offsets."""
        asked = {queue: offset for queue, offset in offsets.items() if self._unreadable.get(queue) != offset}
        found = look(self.cluster, self._options.group, asked).marks
        self._unreadable.update({queue: offset for queue, offset in asked.items() if queue not in found})
        return found

    def _is_too_little(self, rows: int, least: int) -> bool:
        """Return whether to wait for more messages, according to `minOffsetsPerTrigger` and `maxTriggerDelay`."""
        # The minimum does not apply to the last batch of a run, nor to the first one.
        if not least or self.until is not None or self._batch_at is None:
            return False
        waited = (time.monotonic() - self._batch_at) * 1000
        return rows < least and waited < self._options.max_trigger_delay_ms
