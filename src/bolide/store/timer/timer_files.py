"""The timer's log, wheel and checkpoint together, and their recovery (TimerMessageStore.recover).

They are derived from the queue of the timer topic, so no file is synced when a message is accepted. `sync_job` syncs
them and advances the checkpoint, once the commit log is synced as far as the new checkpoint requires. A start restores
the state of the checkpoint. Messages enqueued or delivered after it are enqueued or delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bolide.layout.timer import MAGIC_DELETE, NOWHERE, UNIT_SIZE, WHEEL_SLOTS, Slot, Unit, encode_unit, floor_time
from bolide.layout.timer_checkpoint import TimerCheckpoint, decode_timer_checkpoint
from bolide.store.disk.files import Files
from bolide.store.disk.handles import HandleCache
from bolide.store.disk.jobs import SyncTimer
from bolide.store.timer.timer_log import TimerLog
from bolide.store.timer.timer_wheel import TimerWheel

OPEN_FILES: Final = 8


class Wish:
    """A message to enqueue: its time slot, kind, and the location of its record."""

    def __init__(self, time: int, magic: int, physical_offset: int, size: int, topic_hash: int) -> None:
        self.time = time
        self.magic = magic
        self.physical_offset = physical_offset
        self.size = size
        self.topic_hash = topic_hash


class TimerFiles:
    """The timer's files of one store. Times are ms; positions are offsets in the timer log."""

    def __init__(
        self, files: Files, root: str, precision: int, log_file_size: int, round_slots: int = WHEEL_SLOTS
    ) -> None:
        self._files = files
        self._root = root
        self._log_file_size = log_file_size
        self._handles = HandleCache(files, OPEN_FILES)
        self.log = TimerLog(files, root, log_file_size, self._handles)
        self.wheel = TimerWheel(files, root, precision, round_slots)
        self.checkpoint = TimerCheckpoint()
        """The checkpoint on disk."""
        self.lost = ""
        """Reason why the files are unusable after a start, so that everything is enqueued again, or "" if they are
        usable."""

    # -- start --

    def load(self, queue_offset_of: Callable[[int, int], int]) -> int:
        """Read and repair the files. Return the queue offset to continue from. Sets `lost` if the files are unusable.

        `queue_offset_of(physical offset, size)` returns a record's offset in the timer queue, or -1.
        """
        found = decode_timer_checkpoint(self._files.read_file(self._root + "/config/timercheck"))
        self.checkpoint = found
        self.log.load()
        self.log.segments.sync_later()
        if not self.wheel.load(found.read_time) and found.log_end > 0:
            self.lost = f"{self.wheel.path} is missing or has another size"
        if found.ours and found.precision != self.wheel.precision:
            self.lost = f"timerPrecisionMs was {found.precision} and is {self.wheel.precision}"
        if found.log_end > self.log.segments.end_of_files:
            self.lost = f"{self.log.segments.folder} ends before {found.log_end}"
        if self.lost:
            return found.queue_offset
        offset, end = found.queue_offset, found.log_end
        if not found.ours:
            offset, end = self._after_java(found, queue_offset_of)
            if end == NOWHERE:
                self.lost = f"{self.log.segments.folder} ends before {found.log_end}"
                return offset
        self._back_to(end)
        # Write the wheel first: new units overwrite positions to which its file may still refer.
        now_true = replace(found, log_end=end, queue_offset=offset, precision=self.wheel.precision)
        if end > 0 and (now_true != found or self.wheel.changed):
            self.sync_job(now_true, None).run()
            self.checkpoint = now_true
        return offset

    def again(self) -> TimerFiles:
        """Return an object for the same files, as after a restart."""
        wheel = self.wheel
        return TimerFiles(self._files, self._root, wheel.precision, self._log_file_size, wheel.round_slots)

    def set_back(self, queue_offset: int) -> None:
        """Set and sync the checkpoint's queue offset, because the timer queue ends before it. Raises `FileFailed`."""
        now_true = replace(self.checkpoint, queue_offset=queue_offset)
        self.sync_job(now_true, None).run()
        self.checkpoint = now_true

    def reset(self) -> None:
        """Start with empty files and enqueue the whole timer queue."""
        # Delete the wheel first: after a crash in between, a start finds it missing and resets again.
        self.wheel.reset()
        self._files.sync_dir(self._root)
        self.log.reset()
        self.checkpoint = replace(self.checkpoint, log_end=NOWHERE)
        self.lost = ""

    def _after_java(self, found: TimerCheckpoint, queue_offset_of: Callable[[int, int], int]) -> tuple[int, int]:
        """Return the position at which a store written by Java resumes, as (queue offset, end of the timer log). Update
        the wheel.

        Java records the end of its log before the sync that belongs to the queue offset, so complete units after that
        end are read too. Java may have been killed while it wrote the wheel, so the slots of the last two files are set
        again, as in Java. Stops before units of messages at or after the queue offset, which are written again. The
        end is NOWHERE if units are missing.
        """
        size = int(self.log.segments.segment_size)
        most = int(self.log.segments.end_of_files)
        at = max((found.log_end - size) // size * size, self.log.begin)
        end, newest = at, None
        known = {time: int(slot.last) for time, slot in self.wheel.slots.items()}
        going = True
        while going and at != NOWHERE and at < most:
            units = self.log.units_from(at, most)
            for position, unit in units:
                if position >= found.log_end:
                    offset = queue_offset_of(int(unit.physical_offset), int(unit.size))
                    if offset < 0 or offset >= found.queue_offset:
                        going = False
                        break
                newest, end = unit, position + UNIT_SIZE
                self._relink(position, unit, found.read_time, known)
            else:
                at = self.log.goes_on(end if units else at, most)
        offset = found.queue_offset
        if self.log.next_position(end) < found.log_end:
            return offset, NOWHERE
        if newest is not None:
            last = queue_offset_of(int(newest.physical_offset), int(newest.size))
            if last >= 0:
                offset = min(offset, last + 1)
        return offset, end

    def _relink(self, position: int, unit: Unit, since: int, known: dict[int, int]) -> None:
        """Make this unit the last one of its slot. `known`: last positions of the slots in the file, by time. Their
        counts already include units up to these positions."""
        time = self._slot_time(unit)
        if time < since:
            return
        slot = self.wheel.get(time)
        if slot is None:
            self.wheel.put(Slot(time, position, position, unit.worth))
        else:
            more = unit.worth if position > known.get(time, NOWHERE) else 0
            self.wheel.put(Slot(time, slot.first, position, slot.count + more))

    def _slot_time(self, unit: Unit) -> int:
        return int(floor_time(unit.time, self.wheel.precision))

    def _back_to(self, end: int) -> None:
        """Remove all units from `end` on from the wheel, and truncate the log to `end`."""
        most = int(self.log.segments.end_of_files)
        broken: dict[int, int] = {}
        for time, slot in list(self.wheel.slots.items()):
            at, count = int(slot.last), int(slot.count)
            while at >= end:
                unit = self.log.unit_before(at, most)
                if unit is None or self._slot_time(unit) != time or unit.previous >= at:
                    broken[time] = int(slot.first)
                    break
                count -= int(unit.worth)
                at = int(unit.previous)
            else:
                self._set_last(slot, at, count)
        if broken:
            self._search(broken, end)
        self.log.cut(end)

    def _set_last(self, slot: Slot, last: int, count: int) -> None:
        if last == NOWHERE:
            self.wheel.erase(int(slot.time))
        elif last != slot.last:
            self.wheel.put(Slot(slot.time, slot.first, last, count))

    def _search(self, broken: dict[int, int], end: int) -> None:
        """Search the log for the units of these slots, starting at the oldest, because the wheel was torn."""
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        count: dict[int, int] = {}
        begin = self.log.begin
        low = min(broken.values())
        size = int(self.log.segments.segment_size)
        at = begin + (low - begin) // size * size if begin <= low < end else begin
        while at != NOWHERE and at < end:
            units = self.log.units_from(at, end)
            for position, unit in units:
                time = self._slot_time(unit)
                if time in broken:
                    first.setdefault(time, position)
                    last[time] = position
                    count[time] = count.get(time, 0) + int(unit.worth)
            at = self.log.goes_on(units[-1][0] + UNIT_SIZE if units else at, end)
        for time in broken:
            if time in last:
                self.wheel.put(Slot(time, first[time], last[time], count[time]))
            else:
                self.wheel.erase(time)

    # -- in operation --

    def append(self, wishes: list[Wish], write_time: int) -> None:
        """Add all messages. Raises `FileFailed` without adding any."""
        slots: dict[int, Slot] = {}
        units: list[bytes] = []
        at = self.log.end
        for wish in wishes:
            at = self.log.next_position(at)
            slot = slots.get(wish.time) or self.wheel.get(wish.time)
            previous = NOWHERE if slot is None else int(slot.last)
            units.append(
                encode_unit(
                    previous, wish.magic, write_time, wish.time, wish.physical_offset, wish.size, wish.topic_hash
                )
            )
            first = at if slot is None else int(slot.first)
            count = 0 if slot is None else int(slot.count)
            slots[wish.time] = Slot(wish.time, first, at, count + (-1 if wish.magic & MAGIC_DELETE else 1))
            at += UNIT_SIZE
        # After a crash below this line, the checkpoint does not include these units, and they are rewritten.
        self.log.end = self.log.write(units, self.log.end)
        for slot in slots.values():
            self.wheel.put(slot)

    def sync_job(self, checkpoint: TimerCheckpoint, metrics: bytes | None) -> SyncTimer:
        """Return the job that syncs all changes so far and then advances the checkpoint. Run one at a time.

        Do not run another job after a failed one: the kernel may have dropped unsynced data without another error.
        """
        paths, folders = self._handles.take_unsynced()
        changes = self.wheel.take_changes()
        return SyncTimer(self._files, self._root, paths, folders, self.wheel.size, changes, checkpoint, metrics)

    def close(self) -> None:
        """Close the files."""
        self._handles.close()
