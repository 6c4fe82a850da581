"""Truncates the log of a slave to the part that its new master has.

All derived files are truncated too. Before the first byte is removed, the new end is written to a file, which exists
until the last change is synced. A start that finds the file finishes the truncation. So a crash in between leaves
neither a log with a hole nor a queue with units of missing records. Before all that, the bytes to truncate are copied
to a folder next to the log.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from librt.strings import read_i32_be, read_i64_be

from bolide.layout.checkpoint import Checkpoint
from bolide.layout.record import BLANK_MAGIC, BLANK_SIZE, MAGIC_V1, MAGIC_V2, OFFSET_PHYSICAL
from bolide.store.background.maintenance import Maintenance
from bolide.store.background.reput import Reput
from bolide.store.disk.copies import PART, copy_bytes
from bolide.store.disk.jobs import SyncDerived
from bolide.store.disk.segments import unshare
from bolide.store.errors import NotTheLog, ServiceNotAvailable, StoreDamaged
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.queues.queue_numbers import QueueNumbers

NAME: Final = "cutLog"
_CHUNK: Final = 1024 * 1024
COPIES: Final = 16
"""Maximum number of copies; the oldest ones are deleted."""
_TIME_DIGITS: Final = 17
_COPY: Final = re.compile(rf"\d{{{_TIME_DIGITS}}}-\d{{20}}")
"""Names of complete copies."""


class LogCut:
    """Truncates the log in the folder `root`, with all files derived from it."""

    def __init__(
        self,
        root: str,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexService,
        reput: Reput,
        numbers: QueueNumbers,
        maintenance: Maintenance,
    ) -> None:
        self._files = log.files
        self._root = root
        self.folder = f"{root}/truncated"
        """Copies of truncated bytes, one file per truncation, named after its time and physical offset."""
        self._log = log
        self._queues = queues
        self._index = index
        self._reput = reput
        self._numbers = numbers
        self._maintenance = maintenance

    def check(self, end: int) -> None:
        """Raise if the log cannot be truncated at `end` now. Blocks on the disk.

        Raises `ServiceNotAvailable` while part of the log is not synced (see `flush_soon`) or a pool job of the store
        is running: retry in a later turn. Raises `NotTheLog` if no record and no blank record at the end of a file
        starts at `end`, and `FileFailed` if the log cannot be read.
        """
        log = self._log
        if self._maintenance.busy or log.end_offset != log.flushed_offset:
            raise ServiceNotAvailable(f"the store {self._root} cannot be truncated while it writes")
        if log.segments.min_offset <= end < log.end_offset:
            if end % log.segment_size == 0:
                return
            head = log.segments.read(end, OFFSET_PHYSICAL + 8)
            magic = read_i32_be(head, 4) if len(head) >= BLANK_SIZE else 0
            if magic == BLANK_MAGIC and read_i32_be(head, 0) == log.segment_size - end % log.segment_size:
                return
            whole = len(head) == OFFSET_PHYSICAL + 8 and magic in (MAGIC_V1, MAGIC_V2)
            if whole and read_i64_be(head, OFFSET_PHYSICAL) == end:
                return
        raise NotTheLog(
            f"the log of {self._root} reaches from {log.segments.min_offset} to {log.end_offset}, and no record starts "
            f"at {end}: it cannot be truncated there"
        )

    def keep_copy(self, end: int, now: int) -> None:
        """Copy the bytes from `end` on durably, before `run` truncates them. A file that a running copy of the store
        shares is no longer shared afterwards. Blocks on the disk.

        Raises `FileFailed`.
        """
        files, folder, log = self._files, self.folder, self._log
        files.make_dir(folder)
        files.sync_dir(self._root)
        begin, stop = max(end, int(log.segments.min_offset)), int(log.end_offset)
        names = files.list_dir(folder)
        for name in names:
            if name.endswith(PART):  # a crash left it
                files.remove(f"{folder}/{name}")
        copies = sorted(name for name in names if _COPY.fullmatch(name))
        # A crash here leaves an incomplete copy and the whole log.
        name = f"{_time_after(copies, files.local_time(now))}-{begin:020}"
        copy_bytes(files, log.segments.read, f"{folder}/{name}", begin, stop)
        for old in [*copies, name][:-COPIES]:
            files.remove(f"{folder}/{old}")
        files.sync_dir(folder)
        # Before `run`, and not in it: a full disk must be noticed while the log is whole. Also, a start rejects a store
        # whose newest file is shared before it finishes a truncation.
        unshare(log.segments, end)

    def run(self, end: int, now: int) -> None:
        """Truncate the log to `end` durably, after `check`. Blocks on the disk.

        Raises `FileFailed` if a file cannot be changed. The caller must then not append until a start has finished the
        truncation.
        """
        log, reput, maintenance = self._log, self._reput, self._maintenance
        maintenance.sealed.cut(end)  # first, because a copy in progress must not contain a byte that is overwritten
        # A crash before this line leaves the store unchanged. After it, the next start finishes the truncation.
        self._files.write_file(f"{self._root}/{NAME}", f"{end}\n".encode())
        checkpoint = replace(
            Checkpoint(),
            logics_physical_offset=max(min(maintenance.checkpoint.logics_physical_offset, end - 1), 0),
            run_id=maintenance.run_id,
            held_offset=min(maintenance.checkpoint.held_offset, end),
        )
        self._cut_files(end, checkpoint)
        log.tail.clear()
        log.start_at(end, log.last_store_timestamp, now, min(log.check_from, end), min(log.next_check_from, end))
        reput.withdraw(end)
        reput.start_at(min(reput.dispatched_offset, end))
        self._numbers.forget_all()
        maintenance.was_cut(checkpoint)
        self._forget_note()

    def finish(self, checkpoint: Checkpoint) -> Checkpoint:
        """At startup: finish an interrupted truncation. Return the checkpoint that is then valid.

        Raises `FileFailed`, and `StoreDamaged` if the file of the truncation is unreadable.
        """
        data = self._files.read_file(f"{self._root}/{NAME}")
        if data is None:
            return checkpoint
        try:
            end = int(data)
        except ValueError:
            raise StoreDamaged(
                f"{self._root}/{NAME} contains no offset at which to truncate the log: delete it"
            ) from None
        checkpoint = Checkpoint(held_offset=min(checkpoint.held_offset, end))
        if not self._log.segments.is_empty():
            self._cut_files(end, checkpoint)
        self._forget_note()
        return checkpoint

    def _cut_files(self, end: int, checkpoint: Checkpoint) -> None:
        """Truncate files only, and sync all changes at the end. Idempotent."""
        segments = self._log.segments
        known = segments.segment_starts()[-1]
        for name in reversed(self._files.list_dir(segments.folder)):
            if name.isdigit() and int(name) > max(known, end):  # created ahead of use; delete the newest first
                self._files.remove(f"{segments.folder}/{name}")
                self._files.sync_dir(segments.folder)
        segments.truncate_to(end + 1)
        self._wipe(end)
        segments.datasync_to(end + 1, end)
        self._queues.truncate(end)
        self._index.truncate(end)
        # The times of index files are meaningless now: new records may be older than the removed ones.
        self._index.index_msg_timestamp = 0
        self._index.flush()
        self._queues.flush()
        self._queues.deleted.lower(end)
        self._queues.deleted.save()
        paths, folders = self._queues.handles.take_unsynced()
        SyncDerived(self._files, self._root, paths, folders, checkpoint).run()

    def _wipe(self, end: int) -> None:
        """Zero the rest of the file: otherwise a later record could end where an old complete record starts."""
        segments = self._log.segments
        at, stop = end, end - end % int(segments.segment_size) + int(segments.segment_size)
        while 0 <= at < stop and at < segments.end_of_files:
            at = int(segments.next_data(at))
            if not end <= at < stop:
                return
            data = segments.read(at, min(_CHUNK, stop - at))
            if not data:
                return
            segments.write(at, [bytes(len(data))])
            at += len(data)

    def _forget_note(self) -> None:
        # If power fails before this is durable, the truncation is repeated. So no record may be appended before that.
        self._files.remove(f"{self._root}/{NAME}")
        self._files.sync_dir(self._root)


def _time_after(copies: list[str], time: str) -> str:
    """Return the time for the name of the next copy: later than the newest one, even if the clock was set back."""
    return max(time, f"{int(copies[-1][:_TIME_DIGITS]) + 1:0{_TIME_DIGITS}}") if copies else time
