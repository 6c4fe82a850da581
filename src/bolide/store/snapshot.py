"""Copies the store of a running broker to a new folder: a store that was closed cleanly.

The broker only reports positions of its log (`LogPosition`). This process reads the broker's files, in an order that
makes the copy consistent:

1. Sealed log files, which take long. They do not change.
2. The checkpoint, then queues and index, which the broker may write meanwhile. They contain everything that the
   checkpoint describes, as after a kill of the process.
3. The timer and the tables. If a topic is deleted during this step, the step is repeated: otherwise a group could keep
   its offsets in a topic that starts again at 0.
4. The end of the log. It is read last, so no copied file is ahead of it, and messages that the broker delivered
   meanwhile are below it. Only the tombstones of deleted topics and the epochs of the log may be ahead of the log.
5. The remaining log files up to this end.
6. Recovery, as after a kill. It rejects a log that ends early, adds missing entries to queues and index, and closes the
   copy.

Sealed log files are hard links if the copy is on the same file system. A file is linked only if the broker has synced
bytes of the next one, so that a start of either store does not find a shared file at the end of its log. A shared file
is never overwritten: retention removes its name, and `unshare` (`store.disk.segments`) separates it before a truncation
or a repair. All other files are written in place, so they are copied.

The copy has another name until its last byte is on disk. An error removes it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, Protocol

from bolide.errors import ConnectionLost, LocalError, RequestTimeout, caused
from bolide.layout.checkpoint import Checkpoint, decode_checkpoint
from bolide.layout.deleted_topics import NAME as DELETED_TOPICS
from bolide.layout.shape import StoreShape
from bolide.store.disk.checkpoint_file import write_checkpoint
from bolide.store.disk.copies import copy_file
from bolide.store.disk.file_contract import DiskFull, FileFailed, Files
from bolide.store.disk.format_stamp import check_format
from bolide.store.disk.jobs import sync_files
from bolide.store.disk.lock import RunMark, mark_running, read_mark, was_killed
from bolide.store.disk.segments import NAME_DIGITS, segment_name
from bolide.store.errors import StoreDamaged
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions

PARTIAL: Final = ".partial"
"""Suffix of a copy that is not complete."""
EPOCHS: Final = "epochFileCheckpoint"
DISK_CHECK_BYTES: Final = 64 * 1024 * 1024
"""Number of copied bytes after which the disk is checked."""
_NOT_TABLES: Final = (".bak", ".tmp", ".crc")
_TIMER_CHECKPOINT: Final = "timercheck"
_TRIES: Final = 5


class SnapshotFailed(LocalError):
    """The store could not be copied. No copy is left."""


class LogPosition(Protocol):
    """The store of the running broker, as the broker reports it. Offsets are physical offsets of its log."""

    @property
    def run(self) -> int:
        """Number of the broker's run."""

    @property
    def cuts(self) -> int:
        """Number of truncations of the log in this run."""

    @property
    def begin(self) -> int:
        """Start of the oldest log file that has not expired."""

    @property
    def written(self) -> int:
        """End of the log. The kernel has all bytes before it."""

    @property
    def synced(self) -> int:
        """Offset up to which the log is on disk."""


class TableFiles(Protocol):
    """The files of tables with their checksums, see `bolide.node.loop.table_sums`."""

    def mismatch(self, path: str, data: bytes) -> str:
        """Return why the content of a table is damaged, or ""."""

    def write(self, path: str, data: bytes) -> None:
        """Write a table and its checksum."""


@dataclass(frozen=True)
class Source:
    """A running broker's store. `position` queries the broker, which writes its tables before it responds."""

    root: str
    position: Callable[[], LogPosition]
    tables: Callable[[], TableFiles]
    """Returns an object that has not read a checksum before."""
    epochs: str
    """Path of the epochs of a replica's log; the file may be missing."""
    disk_limit: float
    """Disk usage (0.0 to 1.0) above which the broker deletes or rejects messages."""


@dataclass
class SnapshotReport:
    """A complete copy."""

    folder: str
    log_begin: int = 0
    log_end: int = 0
    linked_files: int = 0
    linked_bytes: int = 0
    copied_bytes: int = 0
    """Bytes of copied files, without their holes, and without tables."""


Progress = Callable[[str, int, int, str], None]
"""Called with the stage, the finished and the total amount, and their unit."""


class StoreSnapshot:
    """One copy of one store. `now`: the current time in ms since the epoch."""

    def __init__(
        self,
        files: Files,
        source: Source,
        folder: str,
        shape: StoreShape,
        options: StoreOptions,
        now: int,
        progress: Progress,
    ) -> None:
        self._files = files
        self._source = source
        self._root = source.root
        self._folder = folder
        self._copy = folder + PARTIAL
        self._shape = shape
        self._options = options
        self._now = now
        self._progress = progress
        self._segment_size = int(shape.commit_log_segment_size)
        self._log: dict[int, bool] = {}
        """Starts of the log files in the copy."""
        self._check_disk_at = 0
        self._same_disk = True
        self.report = SnapshotReport(folder)

    def run(self) -> SnapshotReport:
        """Copy the store. Raises `SnapshotFailed`, `FileFailed`, `StoreDamaged`, and the errors of the query; the copy
        is removed then, also after Ctrl-C."""
        files, parent = self._files, posixpath.dirname(self._folder) or "."
        check_format(files, self._root)
        first = self._source.position()
        self._check_place(first)
        written = self._copy
        try:
            files.make_dir(self._copy)
            self._same_disk = files.boot_id(self._root) == files.boot_id(self._copy)
            self._fill(first)
            self._sync()
            files.rename(self._copy, self._folder)
            written = self._folder
            files.sync_dir(parent)
        except BaseException:
            with suppress(FileFailed):
                _remove_tree(files, written)
            raise
        return self.report

    def _check_place(self, first: LogPosition) -> None:
        mark = read_mark(self._files, self._root)
        if mark is None or mark.run_id != first.run or mark.boot_id != self._files.boot_id(self._root):
            raise SnapshotFailed(
                f"{self._root} is not the store of the running broker: run the command on the broker's machine, and "
                "give --store if the broker knows the folder by another path"
            )
        if f"{self._folder}/".startswith(f"{self._root}/"):
            raise SnapshotFailed(f"{self._folder} is in the store that it would copy: give another folder")
        names = self._files.list_dir(posixpath.dirname(self._folder) or ".")
        if posixpath.basename(self._folder) in names:
            raise SnapshotFailed(f"{self._folder} exists: give a new folder")
        if posixpath.basename(self._copy) in names:
            raise SnapshotFailed(
                f"{self._copy} exists, so another copy is in progress or was interrupted: give another folder, or "
                "delete it if no command is running"
            )

    def _fill(self, first: LogPosition) -> None:
        for name in ("commitlog", "consumequeue", "index", "config"):
            self._files.make_dir(f"{self._copy}/{name}")
        self._copy_sealed(first)
        checkpoint = self._checkpoint()
        self._copy_queues("consumequeue")
        # After the units, which refer to these. The broker writes an extension before the unit.
        self._copy_queues("consumequeue_ext")
        self._copy_folder("index", "index files")
        last = self._copy_progress(first)
        self._copy_whole(self._source.epochs, EPOCHS)
        self._copy_rest(first, last)
        self._same(first)
        covered = checkpoint.logics_physical_offset + 1 if checkpoint.logics_physical_offset else int(first.begin)
        if covered < self.report.log_begin:
            # Recovery completes the queues from the log after the copied checkpoint. Retention waits only for a
            # checkpoint that covers the files, which may be a later one. Without this part of the log, a queue could
            # end too early, and its next messages would get offsets that consumers have passed.
            raise SnapshotFailed(
                f"retention deleted log files of {self._root} that are newer than the copied checkpoint, so the "
                "copied queues are incomplete; the copy was removed: free space, and repeat the command"
            )
        self._recover(int(last.written), checkpoint)

    def _copy_progress(self, first: LogPosition) -> LogPosition:
        """Copy timer, tables and tombstones, with all changes before the start of this step. Return the position
        after it."""
        tombstones = f"{self._root}/{DELETED_TOPICS}"
        for _ in range(_TRIES):
            before = self._steady(tombstones)
            self._same(first)  # the broker writes its tables
            self._copy_timer()
            self._copy_tables()
            last = self._same(first)
            if before == self._steady(tombstones):
                if before is not None:
                    self._files.write_file(f"{self._copy}/{DELETED_TOPICS}", before)
                return last
            for name in ("config", "timerwheel", "timerlog"):
                _remove_tree(self._files, f"{self._copy}/{name}")
            self._files.make_dir(f"{self._copy}/config")
        raise SnapshotFailed(
            "topics were deleted in each attempt to copy the tables; the copy was removed: repeat the command when no "
            "topics are deleted"
        )

    def _same(self, first: LogPosition) -> LogPosition:
        """Return the current position. Raises `SnapshotFailed` if the broker stopped, or truncated its log."""
        try:
            found = self._source.position()
        except (ConnectionLost, RequestTimeout) as error:
            raise caused(
                SnapshotFailed(f"the broker stopped responding during the copy, which was removed: {error}"), error
            ) from None
        if (found.run, found.cuts) != (first.run, first.cuts):
            raise SnapshotFailed(
                "the broker was restarted, or truncated its log, during the copy, which was removed: repeat the command"
            )
        return found

    # -- the log --

    def _copy_sealed(self, first: LogPosition) -> None:
        size = self._segment_size
        starts = [start for start in range(int(first.begin), int(first.synced), size) if start + size < first.synced]
        for done, start in enumerate(starts, 1):
            self._take_log_file(start, size, first)  # an expired file may be missing
            self._progress("sealed log", done * size, len(starts) * size, "bytes")

    def _copy_rest(self, first: LogPosition, last: LogPosition) -> None:
        """Copy the log files that the copy lacks, up to the end of the log, and remove expired ones."""
        size, end, begin = self._segment_size, int(last.written), int(last.begin)
        if begin == end:  # without records, an empty file shows where the log starts
            self._files.close(self._files.open(self._log_path(begin), True, size))
            self._log[begin] = True
        lacking = [start for start in range(begin, end, size) if start not in self._log]
        for done, start in enumerate(lacking, 1):
            if not self._take_log_file(start, min(size, end - start), last):
                # Expired in the meantime. Its name is removed after the broker has changed its position.
                begin = max(begin, int(self._same(first).begin))
                if start >= begin:
                    raise SnapshotFailed(
                        f"{self._root}/commitlog has no file {segment_name(start)}, and no copy was made: stop the "
                        f"broker, and run `bolide store verify {self._root}`"
                    )
            self._progress("newest log", done * size, len(lacking) * size, "bytes")
        for start in [start for start in self._log if start < begin]:
            self._files.remove(self._log_path(start))
        self.report.log_begin, self.report.log_end = begin, end

    def _take_log_file(self, start: int, size: int, position: LogPosition) -> bool:
        """Link or copy the first `size` bytes of a log file. Return False if the file does not exist."""
        source, target = f"{self._root}/commitlog/{segment_name(start)}", self._log_path(start)
        if start + self._segment_size < position.synced:
            try:
                linked = self._files.link(source, target)
            except FileFailed:
                if self._files.size(source) < 0:
                    return False
                raise
            if linked:
                self.report.linked_files += 1
                self.report.linked_bytes += size
                self._log[start] = True
                return True
        if not copy_file(self._files, source, target, size, self._copied):
            return False
        self._log[start] = True
        return True

    def _log_path(self, start: int) -> str:
        return f"{self._copy}/commitlog/{segment_name(start)}"

    # -- files that refer to the log --

    def _checkpoint(self) -> Checkpoint:
        data = self._steady(f"{self._root}/checkpoint")
        return Checkpoint() if not data else decode_checkpoint(data)

    def _copy_timer(self) -> None:
        """The checkpoint is copied first: it describes files that were synced before it was written. The wheel refers
        to units that were synced before the wheel was written."""
        self._copy_whole(f"{self._root}/config/{_TIMER_CHECKPOINT}", f"config/{_TIMER_CHECKPOINT}")
        self._copy_some(f"{self._root}/timerwheel", f"{self._copy}/timerwheel")
        self._copy_folder("timerlog", "files of the timer")

    def _copy_tables(self) -> None:
        names = [
            name
            for name in self._files.list_dir(f"{self._root}/config")
            if not name.endswith(_NOT_TABLES) and name != _TIMER_CHECKPOINT
        ]
        for done, name in enumerate(names, 1):
            if name.endswith(".json"):
                self._copy_table(name)
            else:
                self._copy_whole(f"{self._root}/config/{name}", f"config/{name}")
            self._progress("tables", done, len(names), "files")

    def _copy_table(self, name: str) -> None:
        """Copy one table. It is read again if the broker replaced it between the reads of the table and its
        checksum."""
        path, reason = f"{self._root}/config/{name}", ""
        for _ in range(_TRIES):
            data = self._files.read_file(path)
            if data is None:
                return
            reason = self._source.tables().mismatch(path, data)
            if not reason:
                self._source.tables().write(f"{self._copy}/config/{name}", data)
                return
        raise SnapshotFailed(f"{path} is damaged, and no copy was made: {reason}")

    def _copy_queues(self, folder: str) -> None:
        """Copy the newest file of a queue first: retention deletes the oldest, so the copy has no gap."""
        files, root = self._files, f"{self._root}/{folder}"
        queues = [f"{topic}/{queue}" for topic in files.list_dir(root) for queue in files.list_dir(f"{root}/{topic}")]
        for done, queue in enumerate(queues, 1):
            self._copy_files(f"{folder}/{queue}")
            self._progress(folder, done, len(queues), "queues")

    def _copy_folder(self, folder: str, unit: str) -> None:
        count = self._copy_files(folder)
        if count:
            self._progress(folder, count, count, unit)

    def _copy_files(self, folder: str) -> int:
        """Copy the numbered files of a folder, newest first. Return how many there are."""
        names = [name for name in self._files.list_dir(f"{self._root}/{folder}") if _is_number(name)]
        if names:
            self._files.make_dir(f"{self._copy}/{folder}")
        for name in reversed(names):
            self._copy_some(f"{self._root}/{folder}/{name}", f"{self._copy}/{folder}/{name}")
        return len(names)

    def _copy_some(self, source: str, target: str) -> None:
        """Copy a file if it exists. Topics and expired files may be deleted at any time."""
        copy_file(self._files, source, target, max(self._files.size(source), 0), self._copied)

    def _copy_whole(self, source: str, name: str) -> None:
        """Copy a small file if it exists."""
        data = self._steady(source)
        if data is not None:
            self._files.write_file(f"{self._copy}/{name}", data)

    def _steady(self, path: str) -> bytes | None:
        """Read a small file that the broker overwrites in place: two equal reads are not of a write in progress."""
        data = self._files.read_file(path)
        while data is not None and data != (again := self._files.read_file(path)):
            data = again
        return data

    def _copied(self, count: int) -> None:
        """Count copied bytes, and check the disk that the broker also uses."""
        if self._same_disk and self.report.copied_bytes >= self._check_disk_at:
            self._check_disk_at = self.report.copied_bytes + DISK_CHECK_BYTES
            use, limit = self._files.disk_use(self._copy), self._source.disk_limit
            if use > limit:
                raise DiskFull(
                    f"the disk of {self._root} is {use:.0%} full, and above {limit:.0%} the broker deletes or rejects "
                    "messages: free space, or copy to another disk"
                )
        self.report.copied_bytes += count

    # -- the end --

    def _recover(self, end: int, checkpoint: Checkpoint) -> None:
        """Open the copy as after a kill of its process, and close it."""
        files, copy = self._files, self._copy
        # The copied queues and index files contain everything that this checkpoint describes. The synced end makes
        # recovery reject a log that ends early.
        write_checkpoint(files, copy, replace(checkpoint, run_id=self._now, synced_end=end))
        mark_running(files, copy, RunMark(files.boot_id(copy), self._now, True))
        store = MessageStore(files, copy, self._shape, self._options)
        try:
            store.load(self._now)
            try:
                ends = int(store.end_offset)
            finally:
                store.close(self._now)
        except StoreDamaged as error:
            raise caused(SnapshotFailed(f"the copy is not a valid store and was removed: {error}"), error) from None
        if ends != end or was_killed(files, copy):
            raise SnapshotFailed(f"the log of the copy ends at {ends}, not at {end}; the copy was removed")

    def _sync(self) -> None:
        paths, folders = list[str](), list[str]()
        for path in _tree(self._files, self._copy):
            (paths if self._files.size(path) >= 0 else folders).append(path)
        sync_files(self._files, paths, [*folders, self._copy])


def _is_number(name: str) -> bool:
    return len(name) <= NAME_DIGITS and name.isdecimal()


def _tree(files: Files, folder: str) -> Iterator[str]:
    """Yield the paths of all files and folders in a folder, contents before their folder."""
    for name in files.list_dir(folder):
        path = f"{folder}/{name}"
        yield from _tree(files, path)
        yield path


def _remove_tree(files: Files, folder: str) -> None:
    for path in _tree(files, folder):
        files.remove(path)
    files.remove(folder)
