"""`readStream`: micro-batches between offsets that Spark keeps in its checkpoint.

An offset is `{"queues": {topic: {broker: {queue: next offset}}}}`. Spark stores only the end of a batch, and asks again
for the start of the first batch when it repeats it; so an end also contains, under `from`, where queues begin that are
new in the batch. `partitions` is then a function of its two arguments alone. Under `last` an offset contains the last
message read from each queue (`last_read`): every start of a query, and every batch that reads from a queue, compares
it with what the queue holds now. Queues that the options no longer select keep their positions, and are read from there
if they are selected again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from bolide.spark.errors import FOREIGN_CHECKPOINT, OptionError
from bolide.spark.older_stream import INITIAL
from bolide.spark.source.bounds import begin_offsets, hidden_ends
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.data_loss import data_lost
from bolide.spark.source.last_read import LAST, Marks, MessagesBefore, changed, look, marks_of, marks_to_json
from bolide.spark.source.queues import LATEST, Offsets, Queue, from_json, to_json
from bolide.spark.source.ranges import limit_offsets
from bolide.spark.source.source_options import SourceOptions
from bolide.spark.source.tasks import plan, read_partition
from bolide.spark.spark_versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

_LOG: Final = logging.getLogger("bolide.spark")
QUEUES: Final = "queues"
FROM: Final = "from"
ASK_INTERVAL_S: Final = 0.1
ASK_SHARE: Final = 4
"""An idle stream waits this many times as long as its last requests took."""


@dataclass
class Places:
    """Where the next batch may begin and end, by queue."""

    begin: Offsets
    ahead: Offsets
    marks: Marks
    """The messages before `begin`, as recorded in the checkpoint."""
    again: Offsets = field(default_factory=dict)
    """The first offsets of queues that were created again."""


class RocketMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A micro-batch stream. Lives in one process for a whole run of a query; `read` runs in executors."""

    def __init__(
        self, options: SourceOptions, schema: StructType, connect: Callable[[SourceOptions], Cluster] = Cluster
    ) -> None:
        self._options = options
        self._schema = schema
        self._connect = connect
        self._cluster: Cluster | None = None
        self._initial: dict[str, Any] | None = None
        self._latest: Offsets | None = None
        self._until: Offsets | None = None
        self._ask_at = 0.0
        self._last_batch: float | None = None
        self._told: Offsets = {}
        self._begins: Offsets = {}
        self._masters: set[str] = set()
        """Brokers whose master returned the newest offsets, not a replica."""
        self._compared = False
        """Whether this run has compared the last read messages in the checkpoint with the queues."""
        self._compare_at = 0.0
        """When they are compared again, and former queues looked for: as often as routes are asked for.

        A topic that is created again with as many messages as were read, or grows and shrinks between two batches,
        shows nothing else.
        """
        self._unmarked: Offsets = {}
        """Ends of queues whose last message has expired and could not be read; not requested again."""
        self._left: set[Queue] = set()
        """Queues that were removed with messages in them, and were reported."""
        self._away: set[Queue] = set()
        """Queues that no route names, and were reported."""

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_schema": self._schema}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_options"], state["_schema"])  # type: ignore[misc] # connections stay behind

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.max_offsets_per_trigger:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.min_offsets_per_trigger:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._until = self._ask_latest()

    def read_until(self, end: dict[str, Any] | None) -> None:
        """Make the batches of this run end at this offset, or remove that bound; for `OlderStream`."""
        self._until = None if end is None else offsets_of(end)

    def goes_back(self, start: dict[str, Any], end: dict[str, Any]) -> bool:
        """Whether any queue of an offset is missing in a later one, or was read further; for `OlderStream`."""
        ends = offsets_of(end)
        return any(ends.get(queue, -1) < offset for queue, offset in offsets_of(start).items())

    def initialOffset(self) -> dict[str, Any]:
        # Spark asks twice before the first batch; "latest" must not move in between.
        if self._initial is None:
            start = begin_offsets(self._connected(), self._options, LATEST)
            marks = marks_to_json(self._look(start).marks)
            # Known from now on: what enters these queues later would be read if the topic had them.
            former = hidden_ends(self._connected(), list(start), self._options)
            self._initial = {INITIAL: True, QUEUES: to_json({**start, **former}), LAST: marks}
        return self._initial

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        reached = offsets_of(start)
        if INITIAL not in start:
            # Spark asks for the next batch only when the previous one is committed in the checkpoint.
            self._tell_group(reached)
        latest = self._until if self._until is not None else self._ask_latest()
        self._latest = latest
        fresh = self._begin_of_new([queue for queue in latest if queue not in reached])
        compare = time.monotonic() >= self._compare_at
        former = hidden_ends(self._connected(), list(latest), self._options, reached) if compare else {}
        begin = {**reached, **fresh, **former}
        deleted = self._check_dropped(reached, latest)
        deleted |= self._check_away([queue for queue in reached if queue not in latest])
        begin = {queue: offset for queue, offset in begin.items() if queue not in deleted}
        # A queue that is missing for a moment, or was asked of a replica, keeps its position.
        ahead = {queue: max(offset, latest.get(queue, offset)) for queue, offset in begin.items()}
        here = Places(begin, ahead, {queue: mark for queue, mark in marks_of(start).items() if queue in begin})
        self._begin_again(here, self._shorter(reached, latest))
        if compare:
            self._compare(here, [queue for queue in reached if queue in latest])
            self._compared = True
            self._compare_at = time.monotonic() + self._options.discovery_interval_ms / 1000
        if not here.again and self._is_too_little(here, limit):
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else 0
        end = limit_offsets(here.begin, here.ahead, most)
        if not (here.again or deleted or former) and all(end[queue] == offset for queue, offset in begin.items()):
            return start  # Spark compares offsets by their text: the same object means that nothing is new
        last = self._last_of(here, end, latest)
        # Compared after the ends were read: a queue created again before that is noticed now, a later one next time.
        if self._compare(here, [queue for queue in reached if queue in latest and end[queue] != reached[queue]]):
            end = limit_offsets(here.begin, here.ahead, most)
            last = self._last_of(here, end, latest)
        self._last_batch = time.monotonic()
        self._ask_at = 0.0
        found: dict[str, Any] = {QUEUES: to_json(end), LAST: marks_to_json(last)}
        unknown = here.begin if INITIAL in start else {**fresh, **here.again}
        if unknown:
            found[FROM] = to_json(unknown)
        return found

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return None if self._latest is None else {QUEUES: to_json(self._latest)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if INITIAL in end:
            return []
        # When a batch is repeated, Spark asks again for an initial start, so that one says nothing.
        begin = {} if INITIAL in start else offsets_of(start)
        if FROM in end:
            begin.update(from_json(end[FROM], "the checkpoint"))
        reached = offsets_of(end)
        cluster = self._connected()
        there = set(cluster.selected(tolerant=True))
        # A batch that an earlier run planned may have topics that are no longer selected; it is repeated unchanged.
        cluster.queues({queue.topic for queue in reached if not self._options.selection.keeps(queue)}, tolerant=True)
        begin = {queue: begin.get(queue, offset) for queue, offset in reached.items()}
        back = [queue for queue, offset in reached.items() if offset < begin[queue]]
        if back:  # planned by an earlier version: created again while loss is allowed
            begin.update(cluster.earliest(back))
        if not self._compared:
            # A batch that an earlier run planned. Its messages of a queue that was created again are gone; the next
            # batch compares again, and reads that queue from its first message.
            marks = marks_of(end)
            read = {queue: reached[queue] for queue in marks if queue in there and reached[queue] > begin[queue]}
            for queue, seen in changed(read, marks, self._look(read)).items():
                self._lost(queue, read[queue], seen)
                begin[queue] = reached[queue]
        return plan(begin, reached, cluster, self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Called a batch late, and never for the last one: `latestOffset` learns earlier what is committed."""

    def stop(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = self._connect(self._options)
        return self._cluster

    def _begin_of_new(self, queues: list[Queue]) -> Offsets:
        """Queues created since the last batch are read from the first message that they had when they were found."""
        asked = [queue for queue in queues if queue not in self._begins]
        if asked:
            self._begins.update(self._connected().earliest(asked))
        return {queue: self._begins[queue] for queue in queues}

    def _ask_latest(self) -> Offsets:
        # An idle stream polls every 10 ms. Brokers are asked at most ten times a second, less often if there are so
        # many queues that it takes long; after a batch they are asked at once.
        wait = self._ask_at - time.monotonic()
        if wait > 0:
            time.sleep(wait)
        begin = time.monotonic()
        cluster = self._connected()
        latest = cluster.latest(cluster.selected(tolerant=True))
        self._masters = {queue.broker for queue in latest if cluster.master_answered(queue.broker)}
        now = time.monotonic()
        self._ask_at = now + max(ASK_INTERVAL_S, ASK_SHARE * (now - begin))
        return latest

    def _shorter(self, reached: Offsets, latest: Offsets) -> dict[Queue, str]:
        """Queues that, according to their master, end before the position that was reached."""
        found = {queue: latest[queue] for queue, offset in reached.items() if latest.get(queue, offset) < offset}
        brokers = {queue.broker for queue in found} & self._masters
        masters = {broker for broker in brokers if self._connected().surely_master_answered(broker)}
        return {queue: f"ends at {end} now" for queue, end in found.items() if queue.broker in masters}

    def _compare(self, here: Places, queues: list[Queue]) -> bool:
        """Whether any queue was created again; such queues are read from their first message."""
        read = {queue: here.begin[queue] for queue in queues if queue in here.marks}
        other = changed(read, here.marks, self._look(read))
        self._begin_again(here, other)
        return bool(other)

    def _begin_again(self, here: Places, other: dict[Queue, str]) -> None:
        """Fail the query for queues that were created again, or read them from their first message."""
        for queue, seen in other.items():
            self._lost(queue, here.begin[queue], seen)
        if not other:
            return
        first, end = self._connected().earliest(list(other)), self._connected().latest(list(other))
        here.again.update(first)
        here.begin.update(first)
        here.ahead.update(end)
        if self._until is not None:
            self._until.update(end)
        for queue in other:
            here.marks.pop(queue, None)

    def _lost(self, queue: Queue, reached: int, seen: str) -> None:
        data_lost(
            f"{queue} was read up to offset {reached} and {seen}: its topic was deleted and created again, or its "
            "broker lost messages",
            self._options.fail_on_data_loss,
            "read it from its first message",
        )

    def _look(self, offsets: Offsets) -> MessagesBefore:
        return look(self._connected(), self._options.group, offsets)

    def _last_of(self, here: Places, end: Offsets, latest: Offsets) -> Marks:
        """The last message read of each queue, for the checkpoint."""
        known = {queue: mark for queue, mark in here.marks.items() if end.get(queue) == here.begin[queue]}
        ask = {
            queue: offset
            for queue, offset in end.items()
            if queue not in known and queue in latest and self._unmarked.get(queue) != offset
        }
        found = self._look(ask).marks
        self._unmarked.update({queue: offset for queue, offset in ask.items() if queue not in found})
        return {**known, **found}

    def _check_dropped(self, reached: Offsets, latest: Offsets) -> set[Queue]:
        """Check that removed queues were read to their end: a broker returns nothing from them.

        Returns those that a new topic of the same name never had, if loss is allowed.
        """
        cluster = self._connected()
        dropped = cluster.dropped(queue for queue in reached if queue not in latest and queue not in self._left)
        gone: set[Queue] = set()
        if not dropped:
            return gone
        for queue, end in cluster.latest(list(dropped)).items():
            if end > reached[queue]:
                data_lost(
                    f"{queue} was read up to offset {reached[queue]} and holds messages up to {end}, but its topic has "
                    f"only {dropped[queue]} queues for reading on {queue.broker} now: give it "
                    f"{queue.queue_id + 1} again until they are read",
                    self._options.fail_on_data_loss,
                    "continue without them",
                )
                self._left.add(queue)
            elif end < reached[queue] and cluster.surely_master_answered(queue.broker):
                self._lost(queue, reached[queue], f"ends at {end} now")
                gone.add(queue)
        return gone

    def _check_away(self, queues: list[Queue]) -> set[Queue]:
        """Check queues that no route names now; returns those whose topic was deleted, if loss is allowed.

        A run that ends by itself must not end as if they were empty. A continuous one waits for them.
        """
        cluster = self._connected()
        self._away.intersection_update(queues)
        gone = [queue for queue in queues if queue not in self._away and not cluster.dropped([queue])]
        gone = [queue for queue in gone if self._options.selection.keeps(queue)]
        if not gone:
            return set()
        registered = cluster.registered()
        deleted = {queue for queue in gone if queue.broker in registered and not cluster.routed(queue)}
        for queue in gone:
            if queue in deleted:
                what = f"{queue} no longer exists: its topic was deleted, with what had not been read"
            elif queue.broker in registered:
                what = f"{queue} cannot be read to its end: its topic is not readable on {queue.broker}"
            else:
                what = f"{queue} cannot be read to its end: broker {queue.broker} is not registered with a name server"
            if self._until is None:
                _LOG.warning("%s; the query waits for it", what)
            else:
                data_lost(what, self._options.fail_on_data_loss, "continue without it")
        self._away.update(gone)
        return set() if self._until is None or self._options.fail_on_data_loss else deleted

    def _is_too_little(self, here: Places, limit: ReadLimit) -> bool:
        """Whether to wait for more rows, as `minOffsetsPerTrigger` and `maxTriggerDelay` say."""
        least = self._options.min_offsets_per_trigger
        # Everything available is wanted, or there is no later batch: then the minimum does not apply.
        if not least or isinstance(limit, ReadAllAvailable) or self._until is not None or self._last_batch is None:
            return False
        waited = (time.monotonic() - self._last_batch) * 1000
        rows = sum(here.ahead[queue] - offset for queue, offset in here.begin.items())
        return rows < least and waited < self._options.max_trigger_delay_ms

    def _tell_group(self, reached: Offsets) -> None:
        if not self._options.commit_offsets:
            return
        chosen = self._options.selection
        moved = {queue: at for queue, at in reached.items() if self._told.get(queue) != at and chosen.keeps(queue)}
        if moved:
            self._connected().commit(moved)
            self._told.update(moved)


def offsets_of(offset: Mapping[str, Any]) -> Offsets:
    """The queues of a stream offset. Raises OptionError if another source wrote it."""
    if QUEUES not in offset:
        raise OptionError(FOREIGN_CHECKPOINT)
    return from_json(offset[QUEUES], "the checkpoint")
