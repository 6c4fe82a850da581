"""Slow work that does not need the state of the store. The node runs each job in a pool, then notifies the store.

A job gets all its inputs on creation, and accesses files only by path with separate descriptors, so that no handle of
the loop can be closed while it is in use.
"""

from __future__ import annotations

import posixpath
from typing import Final, Protocol

from bolide.layout.checkpoint import Checkpoint
from bolide.layout.timer_checkpoint import TimerCheckpoint
from bolide.store.disk.checkpoint_file import write_checkpoint
from bolide.store.disk.files import FileFailed, Files, SyncFailed
from bolide.store.disk.overwrite import overwrite
from bolide.store.disk.segments import make_segment

MANY: Final = 256
"""Number of files and folders at or above which their file systems are synced as a whole."""


class Job(Protocol):
    """Work for any thread."""

    @property
    def name(self) -> str:
        """Description for messages."""
        ...

    def run(self) -> None:
        """Run the job. Raises `FileFailed`."""
        ...


class MakeSegment:
    """Creates a log file ahead of use, with allocated blocks at its start."""

    name = "make a log file"

    def __init__(self, files: Files, path: str, start: int, size: int, reserve: int) -> None:
        self._files = files
        self._path = path
        self.start = start
        self._size = size
        self._reserve = reserve
        self.sync_failed = False
        """Whether the file exists but cannot be trusted: a second sync would not report the lost bytes."""

    def run(self) -> None:
        """Create the file, or complete an existing one."""
        try:
            make_segment(self._files, None, self._path, self._size, self._reserve)
        except SyncFailed:
            self.sync_failed = True
            raise


class ReserveBlocks:
    """Allocates blocks for the next range of a log file, possibly while the writer uses the same file."""

    name = "reserve disk blocks for the log"

    def __init__(self, files: Files, path: str, offset: int, size: int) -> None:
        self._files = files
        self._path = path
        self._offset = offset
        self._size = size

    def run(self) -> None:
        """Allocate blocks. Writes and syncs nothing. Ignores a deleted file."""
        if self._files.size(self._path) < 0:
            return
        handle = self._files.open(self._path)
        try:
            self._files.reserve(handle, self._offset, self._size)
        finally:
            self._files.close(handle)


class RemoveFiles:
    """Deletes log files that have expired, oldest first."""

    name = "delete log files"

    def __init__(self, files: Files, paths: list[str]) -> None:
        self._files = files
        self.paths = paths

    def run(self) -> None:
        """Delete them one by one, so that a crash in between never leaves a log with a gap."""
        for path in self.paths:
            self._files.remove(path)
            self._files.sync_dir(posixpath.dirname(path))


class SyncDerived:
    """Syncs written queue and index files, then advances the checkpoint."""

    name = "sync queues and index"

    def __init__(self, files: Files, root: str, paths: list[str], folders: list[str], checkpoint: Checkpoint) -> None:
        self._files = files
        self._root = root
        self.paths = paths
        self.folders = folders
        self.checkpoint = checkpoint
        self.sync_failed = False
        """Whether written bytes may be lost. After any other failure, a retry is possible."""

    def run(self) -> None:
        """Sync all files, then write the checkpoint, which guarantees that they are synced."""
        try:
            sync_files(self._files, self.paths, self.folders)
        except SyncFailed:
            self.sync_failed = True
            raise
        write_checkpoint(self._files, self._root, self.checkpoint)


class SyncTimer:
    """Syncs the timer's files in order: the log, the wheel that refers to its units, and the checkpoint."""

    name = "sync the timer's files"

    def __init__(
        self,
        files: Files,
        root: str,
        paths: list[str],
        folders: list[str],
        wheel_size: int,
        changes: list[tuple[int, list[bytes]]],
        checkpoint: TimerCheckpoint,
        metrics: bytes | None,
    ) -> None:
        self._files = files
        self._root = root
        self._paths = paths
        self._folders = folders
        self._wheel_size = wheel_size
        self._changes = changes
        self.checkpoint = checkpoint
        self._metrics = metrics

    def run(self) -> None:
        """Sync the files, then write the checkpoint. A crash before leaves the previous checkpoint with newer files."""
        sync_files(self._files, self._paths, self._folders)
        if self._changes:
            self._write_wheel(self._root + "/timerwheel")
        config = self._root + "/config"
        if self._files.size(config + "/timercheck") < 0:
            self._files.make_dir(config)
            self._files.sync_dir(self._root)
        overwrite(self._files, f"{config}/timercheck", self.checkpoint.encode())
        if self._metrics is not None:
            self._files.write_file(config + "/timermetrics", self._metrics)

    def _write_wheel(self, path: str) -> None:
        fresh = self._files.size(path) != self._wheel_size
        handle = self._files.open(path, fresh, self._wheel_size)
        try:
            for offset, parts in self._changes:
                self._files.write_at(handle, parts, offset)
            self._files.datasync(handle)
        finally:
            self._files.close(handle)
        if fresh:
            self._files.sync_dir(self._root)


def sync_files(files: Files, paths: list[str], folders: list[str]) -> None:
    """Sync files and folders by path, with separate handles. Ignores missing ones."""
    if len(paths) + len(folders) >= MANY and files.sync_file_systems({posixpath.dirname(path) for path in paths}):
        return
    for path in paths:
        try:
            handle = files.open(path)
        except FileFailed:
            if files.size(path) < 0:
                continue  # deleted with its topic or expired in the meantime
            raise
        try:
            files.datasync(handle)
        finally:
            files.close(handle)
    for folder in folders:
        files.sync_dir(folder)


class WriteCheckpoint:
    """Writes only the checkpoint, because the times of the log change every second."""

    name = "write the checkpoint"

    def __init__(self, files: Files, root: str, checkpoint: Checkpoint) -> None:
        self._files = files
        self._root = root
        self.checkpoint = checkpoint

    def run(self) -> None:
        """Write the checkpoint."""
        write_checkpoint(self._files, self._root, self.checkpoint)
