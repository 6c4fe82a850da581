"""All consume queues of a store, by topic and queue id: RocketMQ's ConsumeQueueStore.

A queue comes into being when its first record is dispatched, or when its folder is found at start.
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
"""Most queues that a round of flushing writes all of."""
OLDEST: Final = 128
"""Of more queues a round writes these. The others wait, because each costs a write and usually an open and a close, and
what waits longer is written with more; recovery begins at the last thorough flush anyway, which writes all."""
MAX_WAITING: Final = 64 * 1024 * 1024
"""Bytes that all queues together may keep in memory, before dispatch writes the oldest."""
QUEUE_COST: Final = 400
"""Bytes of memory of a tail, beside its units."""
AT_ONCE: Final = 1024
"""Queues written in one turn when they keep too much."""


@final
class ConsumeQueues:
    """The table of queues. `calc_bitmap` gives the filter bitmap (bytes) of a record where the setting asks for it."""

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
        """Those of `_dirty` that the flush under way has not come to."""
        self.deleted = DeletedTopics(files, root)
        """Topics whose older records get no unit any more."""
        self.stuck: list[ConsumeQueue] = []
        """Queues whose full tail could not be written. While there is one, nothing more may be put."""
        self._waiting = UnitBacklog()
        self.light_count: i64 = 0
        """Light queues (LMQ) there are."""
        self._restarted: set[str] = set()
        self.refused_records: i64 = 0
        """Records whose topic or queue cannot name a file: they get no unit, and nothing else is affected."""
        self._refusals: list[str] = []

    # -- start and end --

    def load(self) -> None:
        """Find the queues of the folder. Call `recover` next."""
        for topic in self.files.list_dir(self.folder):
            for name in self.files.list_dir(self.folder + "/" + topic):
                if name.isdigit() and str(int(name)) == name:
                    self.find_or_create(topic, int(name)).load()

    def recover(self, clean: bool = False) -> int:
        """Find the end of every queue; the highest physical end over all of them, -1 when there is no unit."""
        highest: i64 = -1
        for queue in self.all_queues():
            queue.recover(clean)
            if queue.max_physical_offset > highest:
                highest = queue.max_physical_offset
        return highest

    def max_physical_offset(self) -> int:
        """The highest end of a record that has a unit; -1 when there is none."""
        highest: i64 = -1
        for queue in self.all_queues():
            if queue.max_physical_offset > highest:
                highest = queue.max_physical_offset
        return highest

    def truncate(self, physical_offset: int) -> None:
        """Drop the units of all records at or beyond a physical offset; queues that end before stay untouched."""
        for queue in self.all_queues():
            # -1: the last files hold no unit, so nobody has looked where the queue really ends.
            if queue.max_physical_offset > physical_offset or queue.max_physical_offset < 0:
                queue.truncate(physical_offset)

    def destroy_all(self) -> None:
        """Delete all queues: there is no log at all."""
        for topic in list(self._table):
            self.delete_topic(topic)

    def drop_deleted(self) -> None:
        """Delete what a crash left of the queues of deleted topics: those that end below their mark."""
        for topic, offset in list(self.deleted.marks.items()):
            self._drop_older(topic, offset)

    def close(self) -> None:
        """Write everything that waits; the store syncs and closes the handles, which it shares."""
        self.flush(True)

    # -- work --

    def put(self, d: Dispatch) -> bool:
        """Put a record into its queue; False when it belongs to none (half, rolled back) or is there already."""
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
            # The topic was deleted and made again, on the master of this slave, or by a broker that leaves no mark of
            # it. Java takes such records for duplicates, and has none of the new topic's messages.
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
                # The unit is kept in memory, so its record is dispatched; `make_room` reports the failure.
                self.stuck.append(queue)

    def make_room(self) -> None:
        """Write what must be written before more is put. Raises `FileFailed`: then put nothing, and try again later."""
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
        """Topics of which a queue began again since the last call."""
        taken = self._restarted
        self._restarted = set()
        return taken

    def take_refusals(self) -> list[str]:
        """What was refused since the last call; beyond a hundred only the counter goes up."""
        taken = self._refusals
        self._refusals = []
        return taken

    def _put_multi(self, d: Dispatch, multi: list[MultiQueue]) -> None:
        """Put a record into its light queues; those that have it already are left as they are.

        Crash between two of them, or before the record's own queue: recovery puts it into all of them again.
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
        """Write every waiting unit to its file.

        Nothing is synced here: the written files are listed by `HandleCache.take_unsynced`, which the store hands
        to its pool after a thorough flush, and only then moves the checkpoint.
        """
        while not self.flush_some(len(self._dirty) + len(self._round)) or self._dirty:
            pass

    def flush_some(self, most: int, whole: bool = True) -> bool:
        """Write the waiting units of up to `most` queues; True when the round is through.

        What comes in meanwhile is the next round's, so that ten thousand queues make no long pause.
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
        """A `whole` round has all queues that wait by now, also those of a round that is not through; another one has
        the oldest few."""
        if whole or len(self._dirty) + len(self._round) <= FEW:
            self._round = self._dirty + self._round if self._round else self._dirty
            self._dirty = []
        elif not self._round:
            self._round = self._dirty[:OLDEST]
            self._dirty = self._dirty[OLDEST:]

    def begin_at(self, min_physical_offset: int) -> None:
        """The log begins here now: move each queue's `min_offset`."""
        for queue in self.all_queues():
            queue.correct_min_offset(min_physical_offset)

    def delete_before(self, min_physical_offset: int) -> list[str]:
        """The log begins here now: delete files of older records, and move each queue's `min_offset`."""
        removed: list[str] = []
        for queue in self.all_queues():
            removed += queue.delete_before(min_physical_offset)
        return removed

    # -- the table --

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        """The queue, or None when nothing was ever put into it."""
        by_id = self._table.get(topic)
        return by_id.get(queue_id) if by_id is not None else None

    def find_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue; a new one has no file until its first unit is flushed."""
        by_id = self._table.get(topic)
        if by_id is None:
            by_id = self._table[topic] = {}
        queue = by_id.get(queue_id)
        if queue is None:
            if is_lmq(topic):
                self.light_count += 1
            ext: ConsumeQueueExt | None = None
            place = f"/{topic}/{queue_id}"
            if self._ext and not is_lmq(topic):  # a light queue has plain tags codes: RocketMQ writes no extension
                ext = ConsumeQueueExt(self.files, self.ext_folder + place, self._ext_segment_size, self.handles)
            queue = by_id[queue_id] = ConsumeQueue(
                self.files, self.folder + place, topic, queue_id, self._segment_size, self.handles, ext, self._waiting
            )
        return queue

    def topics(self) -> list[str]:
        """Topics that have a queue."""
        return list(self._table)

    def queue_ids(self, topic: str) -> list[int]:
        """Queue ids of a topic that have a queue, ascending."""
        by_id = self._table.get(topic)
        return sorted(by_id) if by_id is not None else []

    def all_queues(self) -> list[ConsumeQueue]:
        """Every queue."""
        return [queue for by_id in self._table.values() for queue in by_id.values()]

    def delete_topic(self, topic: str) -> None:
        """Delete the queues of a topic and their files; its records stay in the log until retention takes them."""
        if topic not in self._table:
            return
        for queue_id in list(self._table[topic]):
            self._delete_queue(topic, queue_id)
        del self._table[topic]
        self.files.remove(self.folder + "/" + topic)
        if self._ext:
            self.files.remove(self.ext_folder + "/" + topic)

    def delete_older(self, topic: str, physical_offset: int) -> bool:
        """Delete what of a topic was stored before its deletion at this offset of the master's log, as
        `MessageStore.delete_topic` does on the master; queues that began again since are kept. False when that is done
        already. The log must reach this offset. Raises `FileFailed`, with nothing deleted."""
        if physical_offset <= self.deleted.marks.get(topic, 0):
            return False
        self.deleted.add(topic, physical_offset)  # crash here: a start drops the queues
        self._drop_older(topic, physical_offset)
        return True

    def _drop_older(self, topic: str, physical_offset: int) -> None:
        """Delete the queues that end before their topic's mark. A queue has messages of one life of its topic only: it
        begins again with the first of another."""
        ends = {queue_id: queue.max_physical_offset for queue_id, queue in self._table.get(topic, {}).items()}
        if all(end <= physical_offset for end in ends.values()):
            self.delete_topic(topic)
            return
        for queue_id, end in ends.items():
            if 0 <= end <= physical_offset:  # -1: nobody has looked where the queue really ends
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
