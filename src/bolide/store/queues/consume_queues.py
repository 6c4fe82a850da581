"""All consume queues of a store, by topic and queue id (RocketMQ's ConsumeQueueStore).

A queue is created when its first record is dispatched, or when its folder is found at startup.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from bolide.dispatch.multi import LMQ_QUEUE_ID, MultiQueue, is_lmq, is_place
from bolide.dispatch.row import Dispatch, in_queue
from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import FileFailed, Files
from bolide.store.disk.segments import HandleCache
from bolide.store.queues.consume_queue import ConsumeQueue, UnitBacklog
from bolide.store.queues.consume_queue_ext import ConsumeQueueExt
from bolide.store.queues.deleted_topics import DeletedTopics

_MAX_REFUSALS: Final = 100
FEW: Final = 512
"""Maximum number of queues that a flush round writes completely."""
OLDEST: Final = 128
"""Number of queues written in a round if there are more. The others wait: each write usually also costs an open and a
close, and later writes contain more units. Recovery starts at the last thorough flush, which writes all queues."""
MAX_WAITING: Final = 64 * 1024 * 1024
"""Maximum bytes of all queues in memory before dispatch writes the oldest."""
QUEUE_COST: Final = 400
"""Bytes of memory of a tail in addition to its units."""
AT_ONCE: Final = 1024
"""Number of queues written in one turn if they exceed the memory limit."""


@final
class ConsumeQueues:
    """The table of queues. `calc_bitmap` returns the filter bitmap (bytes) of a record if the setting enables it."""

    def __init__(
        self,
        files: Files,
        root: str,
        shape: StoreShape,
        handles: HandleCache,
        calc_bitmap: Callable[[Dispatch], bytes] | None = None,
    ) -> None:
        self.files = files
        self.folder = root + "/consumequeue"
        self.ext_folder = root + "/consumequeue_ext"
        self.handles = handles
        self.calc_bitmap: Callable[[Dispatch], bytes] | None = calc_bitmap
        self._segment_size: i64 = shape.consume_queue_segment_size
        self._ext_segment_size: i64 = shape.consume_queue_ext_segment_size
        self._ext = shape.enable_consume_queue_ext
        self._bitmaps = shape.enable_consume_queue_ext and shape.enable_calc_filter_bit_map
        self._table: dict[str, dict[int, ConsumeQueue]] = {}
        self._dirty: list[ConsumeQueue] = []
        self._round: list[ConsumeQueue] = []
        """Queues of `_dirty` that the current flush has not written yet."""
        self.deleted = DeletedTopics(files, root)
        """Topics whose older records are not dispatched."""
        self.stuck: list[ConsumeQueue] = []
        """Queues whose full tail could not be written. While there is one, no units may be added."""
        self._waiting = UnitBacklog()
        self.light_count: i64 = 0
        """Number of light queues (LMQ)."""
        self._restarted: set[str] = set()
        self.refused_records: i64 = 0
        """Number of records without a unit because their topic and queue id cannot be folder names. Other records are
        not affected."""
        self._refusals: list[str] = []

    # -- start and end --

    def load(self) -> None:
        """Load the queues in the folder. Call `recover` next."""
        for topic in self.files.list_dir(self.folder):
            for name in self.files.list_dir(self.folder + "/" + topic):
                if name.isdigit() and str(int(name)) == name:
                    self.find_or_create(topic, int(name)).load()

    def recover(self, clean: bool = False) -> int:
        """Find the end of every queue. Return the highest end of a record with a unit, or -1 if there is none."""
        highest: i64 = -1
        for queue in self.all_queues():
            queue.recover(clean)
            if queue.max_physical_offset > highest:
                highest = queue.max_physical_offset
        return highest

    def max_physical_offset(self) -> int:
        """Return the highest end of a record with a unit, or -1 if there is none."""
        highest: i64 = -1
        for queue in self.all_queues():
            if queue.max_physical_offset > highest:
                highest = queue.max_physical_offset
        return highest

    def truncate(self, physical_offset: int) -> None:
        """Drop the units of all records at or after a physical offset. Queues that end before are not changed."""
        for queue in self.all_queues():
            # -1: the last files contain no unit, so the real end of the queue is unknown.
            if queue.max_physical_offset > physical_offset or queue.max_physical_offset < 0:
                queue.truncate(physical_offset)

    def destroy_all(self) -> None:
        """Delete all queues, because there is no log."""
        for topic in list(self._table):
            self.delete_topic(topic)

    def drop_deleted(self) -> None:
        """Delete queues of deleted topics that a crash left: queues that end below their tombstone."""
        for topic, offset in list(self.deleted.marks.items()):
            self._drop_older(topic, offset)

    def close(self) -> None:
        """Write all tails. The store syncs and closes the shared handles."""
        self.flush(True)

    # -- work --

    def put(self, d: Dispatch) -> bool:
        """Add a record to its queue. Return False if it has no queue (half, rolled back) or was added before."""
        if not in_queue(d):
            return False
        if d.multi is not None:
            self._put_multi(d, d.multi)
        if self.deleted.marks and self.deleted.covers(d.topic, int(d.physical_offset)):
            return False
        by_id = self._table.get(d.topic)
        queue = by_id.get(d.queue_id) if by_id is not None else None
        if queue is None:
            if not is_place(d.topic, d.queue_id):
                self._refuse(d)
                return False
            queue = self.find_or_create(d.topic, d.queue_id)
        elif d.queue_offset < queue.max_offset and queue.begins_again(d.physical_offset):
            # The topic was deleted and recreated, on the master of this slave, or by a broker that writes no tombstone.
            # Java treats such records as duplicates, and loses all messages of the new topic.
            self._delete_queue(d.topic, d.queue_id)
            self._restarted.add(d.topic)
            queue = self.find_or_create(d.topic, d.queue_id)
        bitmap = b""
        if self._bitmaps and self.calc_bitmap is not None:
            bitmap = self.calc_bitmap(d)
        if not queue.put(d.physical_offset, d.size, d.tags_code, d.queue_offset, d.store_timestamp, bitmap):
            return False
        self._added(queue)
        return True

    def _added(self, queue: ConsumeQueue) -> None:
        if not queue.dirty:
            queue.dirty = True
            self._dirty.append(queue)
        if queue.is_full():
            try:
                queue.write_tail()
            except FileFailed:
                # The unit is in memory, so its record is dispatched. `make_room` reports the failure.
                self.stuck.append(queue)

    def make_room(self) -> None:
        """Flush queues until the limit of unwritten units allows more. Raises `FileFailed`; the caller must then add no
        units and retry later."""
        while self.stuck:
            self.stuck[-1].write_tail()
            self.stuck.pop()
        queues = len(self._dirty) + len(self._round)
        if self._waiting.units * UNIT_SIZE + queues * QUEUE_COST > MAX_WAITING:
            self.flush_some(AT_ONCE)

    def _refuse(self, d: Dispatch) -> None:
        self.refused_records += 1
        if len(self._refusals) < _MAX_REFUSALS:
            self._refusals.append(
                f"the record at offset {d.physical_offset} of the log is in no queue: its topic {d.topic[:64]!r} with "
                f"queue {d.queue_id} cannot name a folder of {self.folder}"
            )

    def take_restarted(self) -> set[str]:
        """Return the topics with queues that have restarted at offset 0 since the last call."""
        taken = self._restarted
        self._restarted = set()
        return taken

    def take_refusals(self) -> list[str]:
        """Return a text for each record that was rejected since the last call, at most 100. `refused_records` counts
        all of them."""
        taken = self._refusals
        self._refusals = []
        return taken

    def _put_multi(self, d: Dispatch, multi: list[MultiQueue]) -> None:
        """Add a record to its light queues. Queues that already have it are not changed.

        After a crash between two of them, or before the record's main queue, recovery adds it to all of them again.
        """
        for light in multi:
            if self.deleted.marks and self.deleted.covers(light.topic, int(d.physical_offset)):
                continue
            queue = self.get(light.topic, LMQ_QUEUE_ID)
            if queue is None:
                queue = self.find_or_create(light.topic, LMQ_QUEUE_ID)
            if queue.put(d.physical_offset, d.size, d.tags_code, light.queue_offset, d.store_timestamp, b""):
                self._added(queue)

    def flush(self, thorough: bool = False, now: int = 0) -> None:
        """Write all tails to their files.

        Does not sync: `HandleCache.take_unsynced` lists the written files, which the store passes to its pool
        after a thorough flush. The checkpoint advances only after that.
        """
        while not self.flush_some(len(self._dirty) + len(self._round)) or self._dirty:
            pass

    def flush_some(self, most: int, whole: bool = True) -> bool:
        """Write the tails of up to `most` queues. Return whether the round has ended.

        Units added in the meantime belong to the next round. With several calls per round, ten thousand queues do not
        cause a long pause.
        """
        if not self._round:
            self.begin_round(whole)
        waiting = self._round
        done = 0
        while waiting and done < most:
            waiting[-1].flush()
            waiting.pop()
            done += 1
        return not waiting

    def begin_round(self, whole: bool) -> None:
        """Start a round. A `whole` round contains all dirty queues, including the queues of an unfinished round. Other
        rounds contain only the oldest queues if there are many."""
        if whole or len(self._dirty) + len(self._round) <= FEW:
            self._round = self._dirty + self._round if self._round else self._dirty
            self._dirty = []
        elif not self._round:
            self._round = self._dirty[:OLDEST]
            self._dirty = self._dirty[OLDEST:]

    def begin_at(self, min_physical_offset: int) -> None:
        """Update each queue's `min_offset` to the new start of the log."""
        for queue in self.all_queues():
            queue.correct_min_offset(min_physical_offset)

    def delete_before(self, min_physical_offset: int) -> list[str]:
        """Delete files of records below the new start of the log, and update each queue's `min_offset`."""
        removed: list[str] = []
        for queue in self.all_queues():
            removed += queue.delete_before(min_physical_offset)
        return removed

    # -- the table --

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """Return the queue, or None if it never had a unit."""
        by_id = self._table.get(topic)
        return by_id.get(queue_id) if by_id is not None else None

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """Return the queue, or create it. A new one has no file until its first unit is flushed."""
        by_id = self._table.get(topic)
        if by_id is None:
            by_id = self._table[topic] = {}
        queue = by_id.get(queue_id)
        if queue is None:
            if is_lmq(topic):
                self.light_count += 1
            ext: ConsumeQueueExt | None = None
            place = f"/{topic}/{queue_id}"
            # RocketMQ writes no extension for a light queue, so its units contain tags codes
            if self._ext and not is_lmq(topic):
                ext = ConsumeQueueExt(self.files, self.ext_folder + place, self._ext_segment_size, self.handles)
            queue = by_id[queue_id] = ConsumeQueue(
                self.files, self.folder + place, topic, queue_id, self._segment_size, self.handles, ext, self._waiting
            )
        return queue

    def topics(self) -> list[str]:
        """Return the topics that have a queue."""
        return list(self._table)

    def queue_ids(self, topic: str) -> list[int]:
        """Return the queue ids of a topic, ascending."""
        by_id = self._table.get(topic)
        return sorted(by_id) if by_id is not None else []

    def all_queues(self) -> list[ConsumeQueue]:
        """Return all queues."""
        return [queue for by_id in self._table.values() for queue in by_id.values()]

    def delete_topic(self, topic: str) -> None:
        """Delete the queues of a topic and their files. Its records remain in the log until retention deletes them."""
        if topic not in self._table:
            return
        for queue_id in list(self._table[topic]):
            self._delete_queue(topic, queue_id)
        del self._table[topic]
        self.files.remove(self.folder + "/" + topic)
        if self._ext:
            self.files.remove(self.ext_folder + "/" + topic)

    def delete_older(self, topic: str, physical_offset: int) -> bool:
        """Delete messages of a topic stored before its deletion at this offset of the master's log, like
        `MessageStore.delete_topic` on the master. Queues restarted since remain. Return False if that was done
        before. The log must reach this offset. Raises `FileFailed` without changes."""
        if physical_offset <= self.deleted.marks.get(topic, 0):
            return False
        self.deleted.add(topic, physical_offset)  # after a crash here, a start drops the queues
        self._drop_older(topic, physical_offset)
        return True

    def _drop_older(self, topic: str, physical_offset: int) -> None:
        """Delete the queues that end before their topic's tombstone. A queue contains messages of one incarnation of
        its topic only, and restarts with the first message of another."""
        ends = {queue_id: queue.max_physical_offset for queue_id, queue in self._table.get(topic, {}).items()}
        if all(end <= physical_offset for end in ends.values()):
            self.delete_topic(topic)
            return
        for queue_id, end in ends.items():
            if 0 <= end <= physical_offset:  # -1: the real end of the queue is unknown
                self._delete_queue(topic, queue_id)

    def _delete_queue(self, topic: str, queue_id: int) -> None:
        queue = self._table[topic].pop(queue_id)
        if is_lmq(topic):
            self.light_count -= 1
        if queue in self._dirty:
            self._dirty.remove(queue)
        if queue in self._round:
            self._round.remove(queue)
        if queue in self.stuck:
            self.stuck.remove(queue)
        queue.destroy()
