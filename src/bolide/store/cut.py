"""Cutting off the end of the log: a slave gives up what its new master does not have.

Everything derived from the log follows. A file says what is being cut from before the first byte goes until the last
change is synced: a start that finds it finishes the cut, so that a crash in the middle leaves no log with a hole and no
queue that names what is gone. Before all that, the bytes to be truncated are copied into a folder beside the log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from librt.strings import read_i32_be, read_i64_be

from bolide.layout.checkpoint import Checkpoint
from bolide.layout.record import BLANK_MAGIC, BLANK_SIZE, MAGIC_V1, MAGIC_V2, OFFSET_PHYSICAL
from bolide.store.background.maintenance import Maintenance
from bolide.store.background.reput import Reput
from bolide.store.disk.copies import copy_bytes
from bolide.store.disk.jobs import SyncDerived
from bolide.store.errors import NotTheLog, ServiceNotAvailable, StoreDamaged
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.queues.queue_numbers import QueueNumbers

NAME: Final = "cutLog"
_CHUNK: Final = 1024 * 1024
COPIES: Final = 16
"""Maximum number of copies; the oldest ones are deleted."""


class LogCut:
    """Cuts the end off the log in the folder `root`, together with everything that is derived from it."""

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
        """Raise unless the log can be cut at `end` now. It waits for the disk.

        Raise `ServiceNotAvailable` while something of the log is not synced (see `flush_soon`) or the pool is at work
        for the store: ask again in a later turn. Raise `NotTheLog` if no record, and no blank at the end of a file,
        begins at `end`, and `FileFailed` if the log cannot be read.
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
        """Copy the bytes from `end` on durably, before `run` truncates them. It waits for the disk.

        Raise `FileFailed`.
        """
        files, folder, log = self._files, self.folder, self._log
        files.make_dir(folder)
        files.sync_dir(self._root)
        begin, stop = max(end, int(log.segments.min_offset)), int(log.end_offset)
        # A crash here leaves an incomplete copy and the whole log.
        path = f"{folder}/{files.local_time(now)}-{begin:020}"
        copy_bytes(files, log.segments.read, path, begin, stop)
        for name in sorted(files.list_dir(folder))[:-COPIES]:
            files.remove(f"{folder}/{name}")
        files.sync_dir(folder)

    def run(self, end: int, now: int) -> None:
        """Let the log end at `end`, durably, after `check`. It waits for the disk.

        Raise `FileFailed` if a file cannot be changed: then nothing may be appended until a start has finished the cut.
        """
        log, reput, maintenance = self._log, self._reput, self._maintenance
        # Crash before this line: nothing happened. After it: the next start finishes the cut.
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
        maintenance.was_cut(checkpoint, end)
        self._forget_note()

    def finish(self, checkpoint: Checkpoint) -> Checkpoint:
        """At a start: finish the cut that a crash interrupted. Return the checkpoint that is valid then.

        Raise `FileFailed`, and `StoreDamaged` if the file of the cut cannot be read.
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
        """Cut files only, all of it synced at the end. Done twice it does the same."""
        segments = self._log.segments
        known = segments.segment_starts()[-1]
        for name in reversed(self._files.list_dir(segments.folder)):
            if name.isdigit() and int(name) > max(known, end):  # made ahead, or about to be used: newest first
                self._files.remove(f"{segments.folder}/{name}")
                self._files.sync_dir(segments.folder)
        segments.truncate_to(end + 1)
        self._wipe(end)
        segments.datasync_to(end + 1, end)
        self._queues.truncate(end)
        self._index.truncate(end)
        # No index file is certain by its time: records that come may be older than those that went.
        self._index.index_msg_timestamp = 0
        self._index.flush()
        self._queues.flush()
        self._queues.deleted.lower(end)
        self._queues.deleted.save()
        paths, folders = self._queues.handles.take_unsynced()
        SyncDerived(self._files, self._root, paths, folders, checkpoint).run()

    def _wipe(self, end: int) -> None:
        """Zero the rest of the file: a later record could end where a whole old one begins."""
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
        # Power cut before this is certain: the cut is finished once more, where no record follows yet. So nothing may
        # be appended before.
        self._files.remove(f"{self._root}/{NAME}")
        self._files.sync_dir(self._root)
