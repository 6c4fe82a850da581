"""Recovery at the start of a store: finds where to start reading the log, where it ends, and what to dispatch again.

First, `look` reads the log without writing to it, and may reject the start. Then `run` recovers. Reading starts where
RocketMQ 5.5.0 starts (docs/protocol/store.md 6), or earlier in three cases. If the checkpoint has no
`logics_physical_offset` (4.x), both timestamps and their margin decide. Lost or deleted index files are refilled from
the log. If there are no queues, they are rebuilt from the first file.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.dispatch.row import Scanned, scan_records
from bolide.layout.checkpoint import Checkpoint
from bolide.layout.record import BLANK_MAGIC, BLANK_SIZE, MAGIC_V1, MAGIC_V2, OFFSET_PHYSICAL, OFFSET_SYS_FLAG
from bolide.layout.shape import StoreShape
from bolide.layout.sysflag import BORN_HOST_V6
from bolide.store.disk.jobs import sync_files
from bolide.store.disk.segments import SegmentList, unshare
from bolide.store.index.index_service import IndexService
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.startup.inventory import SMALL_LOG, check_from_of, something_is_missing
from bolide.store.startup.known_end import Traces, known_to_reach, refuse_damage, refuse_lost_log, whole_until
from bolide.store.startup.survey import Survey

_CHUNK: Final = 4 * 1024 * 1024
_ZEROS: Final = bytes(_CHUNK)
_RECORDS: Final = 4096  # maximum number of dispatches in memory
_HEAD: Final = 128


@final
class RecoveryReport:
    """Report of a start. Offsets and sizes are bytes of the log."""

    def __init__(self) -> None:
        self.abnormal = False
        """Whether the last process did not close the store."""
        self.kept_all = True
        """Whether the log still has everything written in the last run; with sync flush, everything synced."""
        self.scanned_from: int = 0
        self.check_next: int = -1
        """`CommitLog.next_check_from` at the last clean stop, or -1 if it is not valid."""
        self.log_end: int = 0
        self.records: int = 0
        """Number of records read. Their CRCs were compared if `check_crc_on_recover` is set."""
        self.dispatched: int = 0
        """Number of records dispatched to consume queues and index again."""
        self.truncated_bytes: int = 0
        """Number of bytes after the last valid record up to the last non-zero one: a torn tail, now zeroed."""
        self.deleted_files: list[str] = []
        """Files beyond the end, and invalid derived files."""
        self.last_store_timestamp: int = 0

    def sentence(self) -> str:
        """Return one line for the log, which omits what did not happen."""
        found = {
            f"{self.records} records read from {self.scanned_from}": self.records,
            f"{self.dispatched} dispatched again": self.dispatched,
            f"{self.truncated_bytes} torn bytes wiped": self.truncated_bytes,
            f"{len(self.deleted_files)} files deleted": len(self.deleted_files),
        }
        did = [text for text, count in found.items() if count]
        if not self.log_end and not did:
            return "it has no messages yet"
        how = "after a crash" if self.abnormal else "after a clean stop"
        return ", ".join([f"opened {how}, its log ends at {self.log_end}", *did])


@final
class Recovery:
    """Recovers one store. Runs once, after the files are loaded and before the first append."""

    def __init__(
        self,
        log: SegmentList,
        queues: ConsumeQueues,
        index: IndexService,
        shape: StoreShape,
        options: StoreOptions,
        report: RecoveryReport,
    ) -> None:
        self.log = log
        self.queues = queues
        self.index = index
        self.shape = shape
        self.check_crc: bool = options.check_crc_on_recover
        self.files_back: i64 = options.commit_log_recover_max_num
        self.index_safe: bool = options.message_index_safe
        self.report = report
        self._index_after: i64 = -1
        self._dispatch_after: i64 = -1
        self._todo_from: i64 = -1
        self._torn_to: i64 = -1

    def look(self, traces: Traces, inventory: dict[str, object] | None, root: str) -> None:
        """Find the end of the log and the records to dispatch. `inventory`: inventory of a clean stop, or None.

        Does not write to the log. Raises `StoreDamaged` if the log ends too early or is damaged, and `FileFailed`.
        """
        report = self.report
        report.kept_all = traces.kept_all
        starts = self.log.segment_starts()
        if not starts:
            refuse_lost_log(traces, root)
            return
        whole = self._must_read_all(inventory)
        known_end = traces.queues_end
        first = 0 if whole else self._first_segment(starts, traces.checkpoint, known_end)
        # A queue skips units it has, so dispatching everything again costs only time.
        again = report.abnormal or whole or (inventory is None and first == 0)
        self._dispatch_after = -1 if again else known_end
        if not report.abnormal and self.index.index_files():
            # All entries of the newest record exist. After a crash some may be missing, so it is indexed again.
            self._index_after = self.index.last_update_physical_offset
        noted, following = check_from_of(None if again else inventory)
        begin = self._begin_in_file(starts[first], noted)
        report.scanned_from = begin
        survey = Survey(self.log, self.shape, self.check_crc)
        survey.whole_until = whole_until(traces, int(self.log.end_of_files))
        indexed = int(self._index_after) if self.index.enabled else int(self.log.end_of_files)
        found = survey.read([begin, *starts[first + 1 :]], int(self._dispatch_after), indexed)
        self._torn_to = survey.last_data(found.end)
        known = known_to_reach(traces, found, int(self.log.end_of_files))
        refuse_damage(self.log, root, survey, found, known, self._torn_to > found.end)
        report.records = found.records
        report.last_store_timestamp = found.store_timestamp
        report.log_end = found.end
        if begin == noted <= following <= found.end:
            report.check_next = following
        self._todo_from = found.todo_from

    def run(self, checkpoint: Checkpoint, now: int) -> int:
        """Recover as `look` has planned, and return the end of the log. Raises `FileFailed`."""
        report = self.report
        if self.log.is_empty():
            # Units and entries are derived from the log; without it they mean nothing.
            self.queues.destroy_all()
            self.index.destroy()
            return 0
        end = report.log_end
        if report.abnormal:
            # A power failure may have torn or lost any unit written after the last complete flush, so all of these are
            # rebuilt.
            safe = checkpoint.logics_physical_offset
            certain = safe + 1 if safe > 0 else report.scanned_from
            begin = int(self.log.min_offset)
            if certain < begin:
                # RocketMQ's broker, or an earlier release, has deleted log files after its checkpoint. The units of
                # these records cannot be rebuilt. The newest of them must remain, also after a power failure, because
                # they show how many offsets their queues have assigned.
                sync_files(self.queues.files, *self.queues.handles.take_unsynced())
            self.queues.truncate(max(certain, begin))
            # Entries too: entries dropped by an earlier start may be back if power failed again before the sync.
            self.index.truncate(certain)
            # Log files removed by the last run must not reappear once the queue files are deleted.
            self.log.sync_names()
            # Before a queue gets units again, it must determine which of its missing units refer to deleted records.
            self.queues.delete_before(begin)
        if self._todo_from >= 0:
            self._dispatch(self._todo_from, end, now)
        unshare(self.log, end)
        # Newest file first; after a crash in between, the next start still finds the other files beyond the end.
        report.deleted_files += self.log.truncate_to(end + 1)
        self._wipe(end)
        self.queues.truncate(end)
        self.index.truncate(end)
        self.queues.delete_before(int(self.log.min_offset))
        self.index.delete_before(int(self.log.min_offset))
        return end

    # -- where to start --

    def _must_read_all(self, inventory: dict[str, object] | None) -> bool:
        """Return whether derived files are missing that only a scan of the whole log can rebuild."""
        index_lost = self.index.enabled and not self.index.index_files()
        if self.report.abnormal:
            return self.queues.max_physical_offset() < 0
        if inventory is not None and something_is_missing(inventory, self.queues, self.index):
            return True
        if self.queues.max_physical_offset() < 0 or index_lost:
            return True
        return inventory is None and self.log.end_of_files - self.log.min_offset <= SMALL_LOG

    def _first_segment(self, starts: list[int], checkpoint: Checkpoint, known_end: int) -> int:
        """Return the index of the first file to read."""
        index = len(starts) - 1
        # After a crash Java does not search further back than this, and then trusts units that were never synced.
        reached = 0 if self.report.abnormal else max(0, index - int(self.files_back) + 1)
        while index > reached and not self._covered(starts[index], checkpoint, known_end):
            index -= 1
        if self.report.abnormal and self.index.enabled:
            # Index files newer than the checkpoint are deleted: start at the end of the remaining index.
            ends = self.index.last_update_physical_offset
            while index > 0 and starts[index] > ends:
                index -= 1
        return index

    def _covered(self, start: int, checkpoint: Checkpoint, known_end: int) -> bool:
        """Return whether everything before the first record of this file has certainly been dispatched."""
        head = self.log.read(start, _HEAD)
        if len(head) < _HEAD:
            return False
        magic = read_i32_be(head, 4)
        stored_at = store_timestamp_of(head)
        if (magic != MAGIC_V1 and magic != MAGIC_V2) or stored_at == 0:
            return False
        physical_offset = read_i64_be(head, OFFSET_PHYSICAL)
        if not self.report.abnormal:
            return physical_offset <= known_end
        if checkpoint.logics_physical_offset > 0:
            covered = physical_offset <= checkpoint.logics_physical_offset
        else:
            covered = stored_at <= checkpoint.min_timestamp
        if self.index_safe and stored_at > checkpoint.index_msg_timestamp:
            return False
        return covered

    def _begin_in_file(self, start: int, noted: int) -> int:
        """Return the offset to start at in the newest file: the record from the clean stop if queues and index have
        everything before it, otherwise the first record."""
        done = min(self._dispatch_after, self._index_after) if self.index.enabled else self._dispatch_after
        if noted <= start or noted > done or noted >= start + self.log.segment_size:
            return start
        head = self.log.read(noted, _HEAD)
        if len(head) < _HEAD or read_i64_be(head, OFFSET_PHYSICAL) != noted:
            return start
        magic = read_i32_be(head, 4)
        return noted if magic in (MAGIC_V1, MAGIC_V2) else start

    # -- dispatching --

    def _dispatch(self, at: i64, end: i64, now: int) -> None:
        """Dispatch the records between two offsets, which have been checked, to queues and index."""
        size = self.log.segment_size
        want: i64 = _CHUNK
        while at < end:
            stop: i64 = min(at - at % size + size, end)
            buf = self.log.read(at, min(want, stop - at))
            found = scan_records(buf, 0, len(buf), self.shape, False, _RECORDS)
            self._take(found, now)
            at += found.end
            if found.end > 0:
                want = _CHUNK
                continue
            if len(buf) < BLANK_SIZE or read_i32_be(buf, 4) == BLANK_MAGIC:
                at = at - at % size + size
                continue
            want = i64(read_i32_be(buf, 0))  # a record longer than the data read
            if want <= len(buf):
                return

    def _take(self, found: Scanned, now: int) -> None:
        after: i64 = self._dispatch_after
        dispatched: i64 = 0
        index_after = self._index_after
        queues = self.queues
        index = self.index
        queues.make_room()
        for d in found.dispatches:
            if d.physical_offset + d.size > after:
                queues.put(d)
                dispatched += 1
            if d.physical_offset > index_after:
                index.put(d, now)
        self.report.dispatched += dispatched

    # -- the torn tail --

    def _wipe(self, end: int) -> None:
        """Zero the bytes from the end of the log to the end of its file.

        Otherwise a later record could end exactly where an old one starts, and recovery would accept the old one. After
        a crash before the next step, the next start finds the same end and continues.
        """
        at: i64 = end
        stop: i64 = self._torn_to
        while at < stop:
            at = self.log.next_data(at)
            if at < 0:
                return
            data = self.log.read(at, min(_CHUNK, stop - at))
            if not data:
                return
            if data != _ZEROS[: len(data)]:
                kept = len(data.rstrip(b"\x00"))
                self.log.write(at, [bytes(kept)])
                self.report.truncated_bytes = int(at) + kept - end
            at += len(data)


def store_timestamp_of(head: bytes) -> int:
    """Return the store timestamp of a record in ms since the epoch. `head`: its first 128 bytes."""
    sys_flag = read_i32_be(head, OFFSET_SYS_FLAG)
    return read_i64_be(head, 68 if sys_flag & BORN_HOST_V6 else 56)
