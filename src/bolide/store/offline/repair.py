"""`bolide store repair`: repairs a store with a damaged log, so that it starts again. Plans first, then executes.

An unreadable record leaves a hole. Later queue offsets must not change, so a filler record takes its queue offset. The
filler describes the damage. It gets the topic, queue and queue offset that are missing among the other records, or that
the head of the damaged record still contains. If no queue offset is missing, the filler enters no queue. Both kinds of
filler are valid records for RocketMQ as well. Bytes to overwrite or truncate are first copied to a folder next to the
log, and synced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from librt.strings import BytesWriter

from bolide.dispatch.row import Dispatch, dispatch_at, in_queue, scan_records
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.checkpoint import Checkpoint
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import REPAIRED_TOPIC
from bolide.layout.queue_unit import PRE_BLANK_SIZE, UNIT_SIZE, read_unit
from bolide.layout.record import (
    BLANK_SIZE,
    GOOD,
    MIN_RECORD_SIZE,
    OFFSET_PHYSICAL,
    check_record,
    encode_blank,
    encode_record,
    record_size,
)
from bolide.layout.shape import StoreShape
from bolide.layout.sysflag import TRANSACTION_ROLLBACK
from bolide.store.disk.checkpoint_file import load_checkpoint, write_checkpoint
from bolide.store.disk.copies import copy_bytes
from bolide.store.disk.files import Files
from bolide.store.disk.format_stamp import check_format
from bolide.store.disk.handles import HandleCache
from bolide.store.disk.lock import read_mark, was_killed
from bolide.store.disk.segments import SegmentList, unshare
from bolide.store.errors import StoreDamaged
from bolide.store.index.index_service import IndexService
from bolide.store.offline.inspect import queue_folders
from bolide.store.offline.member import (
    DERIVED,
    MemberPaths,
    replica_of,
    set_aside,
    set_identity_aside,
    set_member_aside,
)
from bolide.store.offline.walk import read_whole, segment_files
from bolide.store.startup.inventory import drop_inventory, log_end_of, read_inventory
from bolide.store.startup.known_end import Traces, known_to_reach, later_runs, whole_until
from bolide.store.startup.survey import CHUNK, LogEnd, Run, Survey

_FILLER_TOPIC: Final = REPAIRED_TOPIC.encode()
_HOST: Final = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
_LARGEST: Final = 1024 * 1024

Slot = tuple[str, int, int]
"""Topic, queue id and queue offset of a message."""


@dataclass
class Hole:
    """`size` bytes of the log, starting at `physical_offset`, that contain no whole record. `slots`: the messages that
    were stored there."""

    physical_offset: int
    size: int
    fault: str
    slots: list[Slot] = field(default_factory=list)
    to_end_of_file: bool = False
    store_timestamp: int = 0


@dataclass
class Plan:
    """The faults of a store and the planned repair."""

    root: str
    log_end: int
    """End of the valid records at the start of the log."""
    reason: str = ""
    """Reason why the store does not start, or "" if no repair is necessary."""
    followers: int = 0
    """Number of valid records after the damage."""
    holes: list[Hole] = field(default_factory=list)
    """Holes to fill, or [] if the log should be truncated."""
    cut_bytes: int = 0
    """Number of bytes to truncate after `log_end`, up to the last non-zero byte."""
    no_log: bool = False
    """Whether the log has no file, or a replica's log has no valid record. Everything derived from the log is then set
    aside."""
    member: str = ""
    """Name of the replica, such as `replica 2 of broker-a`, or "". A replica loses its identity, and copies the rest of
    the log from another replica."""


class Repair:
    """Repairs one store folder that no broker uses.

    Raises `FileLocked`, `FileFailed`, `StoreDamaged` and `LayoutError`.
    """

    def __init__(self, files: Files, root: str, shape: StoreShape, member: MemberPaths | None = None) -> None:
        """`member`: paths of a replica's identity according to broker.conf."""
        self._files = files
        self._root = root
        self._shape = shape
        self._handles = HandleCache(files, 16)
        self._log = SegmentList(files, f"{root}/commitlog", shape.commit_log_segment_size, self._handles, True)
        self._survey = Survey(self._log, shape, True)
        self._found = LogEnd(0)
        self._paths = MemberPaths.within(root) if member is None else member
        self._lock = files.lock(f"{root}/lock")

    def close(self) -> None:
        """Close files and release the lock."""
        self._handles.close()
        self._files.unlock(self._lock)

    # -- the plan --

    def plan(self, cut: bool, last_copy: bool = False) -> Plan:
        """Scan the whole log without changes, and plan the repair. With `cut`, the log is truncated at the damage
        instead of filling holes. With `last_copy`, a replica's log is repaired in place."""
        check_format(self._files, self._root)
        member = "" if last_copy else replica_of(self._files, self._paths)
        self._log.load()
        starts = self._log.segment_starts()
        abnormal = was_killed(self._files, self._root)
        traces = Traces(
            abnormal,
            read_mark(self._files, self._root) if abnormal else None,
            self._files.boot_id(self._root),
            load_checkpoint(self._files, self._root),
            log_end_of(read_inventory(self._files, self._root)),
            self._queues_end(),
        )
        if not starts:
            if traces.reached <= 0:
                return Plan(self._root, 0)
            reason = f"the log has no file, but other files show that it reached {traces.reached}"
            return Plan(self._root, 0, reason, no_log=True, member=member)
        self._survey.whole_until = whole_until(traces, int(self._log.end_of_files))
        found = self._found = self._survey.read(starts, -1, -1)
        plan = Plan(self._root, found.end)
        torn_to = self._survey.last_data(found.end)
        runs = later_runs(self._log, self._survey, found, torn_to > found.end)
        known = known_to_reach(traces, found, int(self._log.end_of_files))
        if not runs and found.end >= known.end:
            return plan
        plan.reason = f"{self._survey.fault_at(found.end)} at physical offset {found.end}"
        if found.end < known.end:
            plan.reason += ", but " + known.why.format(known.end)
        plan.followers = sum(run.count for run in runs)
        plan.member = member
        if plan.member and found.end <= starts[0]:
            plan.no_log = True
            return plan
        if runs and not cut and not plan.member:
            plan.holes = self._holes(runs)
            self._find_slots(plan.holes, runs)
        else:
            last = max((self._survey.last_data(start) for start in starts if start > found.end), default=torn_to)
            plan.cut_bytes = max(last, torn_to) - found.end
        return plan

    def _holes(self, runs: list[Run]) -> list[Hole]:
        holes: list[Hole] = []
        size = int(self._log.segment_size)
        at, newest = self._found.end, self._found.store_timestamp
        for run in runs:
            while at - at % size < run.begin - run.begin % size:
                stop = at - at % size + size
                if at < stop and self._log.read(at, BLANK_SIZE)[4:] != encode_blank(0)[4:]:
                    holes.append(Hole(at, stop - at, self._survey.fault_at(at), [], True, newest))
                at = stop
            if at < run.begin:
                holes.append(Hole(at, run.begin - at, self._survey.fault_at(at), store_timestamp=newest))
            at, newest = run.end, max(newest, run.store_timestamp)
        for hole in holes:
            if hole.size < (BLANK_SIZE if hole.to_end_of_file else MIN_RECORD_SIZE + 1):
                raise StoreDamaged(
                    f"the {hole.size} bytes at physical offset {hole.physical_offset} are too few for a record: give "
                    "--cut to truncate the log there"
                )
        return holes

    def _find_slots(self, holes: list[Hole], runs: list[Run]) -> None:
        """Find the messages that were in the holes: messages whose heads are readable, and gaps in the queue offsets of
        the other records."""
        expected: dict[tuple[str, int], int] = {}
        seen: dict[tuple[str, int], int] = {}
        whole_log = self._log.min_offset == 0
        left = list(holes)
        open_holes: list[Hole] = []
        for d in self._records(runs):
            while left and left[0].physical_offset < d.physical_offset:
                hole = left.pop(0)
                own = self._own_slot(hole)
                if own is not None:
                    hole.slots.append(own)
                elif not hole.to_end_of_file:
                    open_holes.append(hole)
            if not in_queue(d):
                continue
            key = (d.topic, int(d.queue_id))
            wanted = expected.get(key, 0 if whole_log else int(d.queue_offset))
            named = {slot[2] for hole in holes for slot in hole.slots if slot[:2] == key}
            behind = [hole for hole in open_holes if hole.physical_offset > seen.get(key, -1)]
            for number in range(wanted, int(d.queue_offset) if behind else wanted):
                slot = (key[0], key[1], number)
                takes = next((hole for hole in behind if _used(hole) + _least(slot) <= hole.size), None)
                if takes is None and number not in named:
                    break
                if takes is not None and number not in named:
                    takes.slots.append(slot)
            expected[key] = int(d.queue_offset) + 1
            seen[key] = int(d.physical_offset)
        for hole in holes:
            hole.slots.sort()

    def _own_slot(self, hole: Hole) -> Slot | None:
        if hole.size > _LARGEST * 64:
            return None
        data = self._log.read(hole.physical_offset, hole.size)
        checked = check_record(data, 0, len(data), False)
        own = int.from_bytes(data[OFFSET_PHYSICAL : OFFSET_PHYSICAL + 8], "big", signed=True)
        if checked.status != GOOD or checked.size != hole.size or own != hole.physical_offset:
            return None
        d = dispatch_at(data, 0, self._shape)
        return (d.topic, int(d.queue_id), int(d.queue_offset)) if in_queue(d) else None

    def _records(self, runs: list[Run]) -> Iterator[Dispatch]:
        """Yield every valid record, in order. The records of one chunk are in memory at a time."""
        size = int(self._log.segment_size)
        spans = [(start, min(start + size, self._found.end)) for start in self._log.segment_starts()]
        for begin, end in [*spans, *((run.begin, run.end) for run in runs)]:
            at, want = begin, CHUNK
            while at < end:
                data = self._log.read(at, min(want, end - at))
                scanned = scan_records(data, 0, len(data), self._shape, False, 1 << 20)
                yield from scanned.dispatches
                if scanned.end == 0:
                    if len(data) >= end - at or len(data) < want:
                        break
                    want = int.from_bytes(data[:4], "big")
                    continue
                at, want = at + int(scanned.end), CHUNK

    def _queues_end(self) -> int:
        """Return the highest end of a record that a queue file refers to, or -1. Reads the last files of each queue."""
        highest = -1
        for _, _, path in queue_folders(self._files, self._root):
            for file in segment_files(self._files, path)[-2:]:
                data = read_whole(self._files, file.path, file.size)
                for at in range(0, len(data) - UNIT_SIZE + 1, UNIT_SIZE):
                    offset, size, _ = read_unit(data, at)
                    if offset < 0 or size <= 0:
                        break
                    if size != PRE_BLANK_SIZE:
                        highest = max(highest, offset + size)
        return highest

    # -- the work --

    def carry_out(self, plan: Plan, now: int) -> str:
        """Execute the plan. Return the folder with the original bytes."""
        folder = f"{self._root}/repair-{self._files.local_time(now)}"
        self._files.make_dir(folder)
        self._files.sync_dir(self._root)
        # The copies are complete before the first byte of the log changes. After a crash, a new plan finds the
        # remaining work. `abort` makes the next start dispatch records from before the first change.
        if plan.no_log:
            self._set_aside(plan, folder)
            return folder
        if plan.member:
            set_identity_aside(self._files, self._paths, folder)
        for hole in plan.holes:
            self._copy(folder, hole.physical_offset, hole.size)
        if plan.cut_bytes:
            self._copy(folder, plan.log_end, self._survey.last_data(plan.log_end) - plan.log_end)
        self._files.sync_dir(folder)
        for at in [hole.physical_offset for hole in plan.holes] or [plan.log_end]:
            unshare(self._log, at)
        self._mark(plan)
        for hole in plan.holes:
            self._log.write(hole.physical_offset, [_filling(hole)])
        if not plan.holes:
            self._cut(plan, folder)
        for path in sorted({self._log.path_at(hole.physical_offset) for hole in plan.holes}):
            self._files.datasync(self._handles.get(path))
        return folder

    def _copy(self, folder: str, at: int, size: int) -> None:
        if size > 0:
            copy_bytes(self._files, self._log.read, f"{folder}/{at:020}-{size}", at, at + size)

    def _cut(self, plan: Plan, folder: str) -> None:
        for start in reversed(self._log.segment_starts()):
            if start > plan.log_end:  # newest first, so that there is never a gap
                path = self._log.path_at(start)
                self._handles.drop(path)
                self._files.rename(path, f"{folder}/{path.rpartition('/')[2]}")
                self._files.sync_dir(folder)
                self._files.sync_dir(f"{self._root}/commitlog")
        stop = self._survey.last_data(plan.log_end)
        for at in range(plan.log_end, stop, CHUNK):
            self._log.write(at, [bytes(min(CHUNK, stop - at))])
        path = self._log.path_at(plan.log_end)
        if path:
            self._files.datasync(self._handles.get(path))

    def _mark(self, plan: Plan) -> None:
        """Make the next start rebuild queues and index from before the first change."""
        clean = not was_killed(self._files, self._root)
        old = load_checkpoint(self._files, self._root)
        before = plan.log_end - 1
        known = old.logics_physical_offset
        newest = max(self._found.store_timestamp - 1, 0)
        fresh = replace(
            Checkpoint(),
            logics_msg_timestamp=newest if clean else min(old.logics_msg_timestamp, newest),
            index_msg_timestamp=min(old.index_msg_timestamp, newest),
            logics_physical_offset=max(before if clean else min(known, before), 0),
            held_offset=old.held_offset if plan.holes else min(old.held_offset, plan.log_end),
        )
        write_checkpoint(self._files, self._root, fresh)
        handle = self._files.open(f"{self._root}/abort", True)
        self._files.truncate(handle, 0)
        self._files.write_at(handle, [str(self._files.process_id()).encode()], 0)
        self._files.datasync(handle)
        self._files.close(handle)
        drop_inventory(self._files, self._root)
        self._files.sync_dir(self._root)
        if self._shape.index_enabled:
            index = IndexService(self._files, self._root, self._shape, self._handles)
            index.load(False, fresh.index_msg_timestamp)
            # a start keeps entries of lost records; without files it rebuilds the index from the whole log
            index.destroy()
            self._files.sync_dir(f"{self._root}/index")

    def _set_aside(self, plan: Plan, folder: str) -> None:
        if plan.member:
            self._handles.close()
            set_member_aside(self._files, self._root, self._paths, folder)
        else:
            set_aside(self._files, [f"{self._root}/{name}" for name in DERIVED], folder)


def _least(slot: Slot) -> int:
    return int(record_size(0, len(slot[0].encode()), 0, 0))


def _used(hole: Hole) -> int:
    return sum(map(_least, hole.slots))


def _filling(hole: Hole) -> bytes:
    """Return the bytes that replace a hole: one record per lost message, and fillers."""
    if hole.to_end_of_file:
        return encode_blank(hole.size) + bytes(hole.size - BLANK_SIZE)
    w = BytesWriter()
    at, left = hole.physical_offset, hole.size
    for number, (topic, queue_id, queue_offset) in enumerate(hole.slots):
        size = _least((topic, queue_id, queue_offset))
        spare = left - sum(map(_least, hole.slots[number:]))
        if number == len(hole.slots) - 1 and (spare <= _LARGEST or spare < 2 * MIN_RECORD_SIZE):
            size += spare
        _record(w, topic.encode(), queue_id, queue_offset, at, 0, size, hole)
        at += size
        left -= size
    while left > 0:
        size = left if left <= _LARGEST else _LARGEST // 2
        name = _FILLER_TOPIC[: size - MIN_RECORD_SIZE]
        _record(w, name, 0, 0, at, TRANSACTION_ROLLBACK, size, hole)
        at += size
        left -= size
    return w.getvalue()


def _record(
    w: BytesWriter, topic: bytes, queue_id: int, queue_offset: int, at: int, bits: int, size: int, hole: Hole
) -> None:
    room = size - int(record_size(0, len(topic), 0, 0))
    mark = b"REPAIRED\x01true\x02"
    properties = mark if room >= len(mark) else b""
    said = b"This message was damaged on disk; bolide store repair put this text in its place."
    body = said.ljust(room - len(properties))[: room - len(properties)]
    time = hole.store_timestamp
    message = BrokerMessage(topic.decode(), topic, queue_id, body, MessageProperties(""), time, _HOST)
    message.sys_flag = bits
    message.store_host = _HOST
    message.encoded_properties = properties
    encode_record(w, message, queue_offset=queue_offset, physical_offset=at, store_timestamp=time)
