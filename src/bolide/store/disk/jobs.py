"""Slow work of the store that needs no state of it: the node runs each job in a pool, then tells the store.

A job gets everything it needs when it is made, and touches only files by their path with descriptors of its own, so
no handle of the loop can be closed under it.
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
"""Files and folders from which on their file systems are synced as a whole."""


class Job(Protocol):
    """Work for any thread."""

    @property
    def name(self) -> str:
        """What it is, for messages."""
        ...

    def run(self) -> None:
        """Do it. Raises `FileFailed`."""
        ...


class MakeSegment:
    """Makes a log file ahead of need, with the blocks of its beginning reserved."""

    name = "make a log file"

    def __init__(self, files: Files, path: str, start: int, size: int, reserve: int) -> None:
        self._files = files
        self._path = path
        self.start = start
        self._size = size
        self._reserve = reserve
        self.sync_failed = False
        """True when the file exists and cannot be trusted: a second sync would succeed anyway."""

    def run(self) -> None:
        """Make the file; one that exists is made whole."""
        try:
            make_segment(self._files, None, self._path, self._size, self._reserve)
        except SyncFailed:
            self.sync_failed = True
            raise


class ReserveBlocks:
    """Gives the next stretch of the log's file real blocks, while the writer may be at work in the same file."""

    name = "reserve disk blocks for the log"

    def __init__(self, files: Files, path: str, offset: int, size: int) -> None:
        self._files = files
        self._path = path
        self._offset = offset
        self._size = size

    def run(self) -> None:
        """Reserve blocks; writes and syncs nothing. A deleted file is no error."""
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
        """Delete them one by one, so that a crash in between can never leave a log with a gap."""
        for path in self.paths:
            self._files.remove(path)
            self._files.sync_dir(posixpath.dirname(path))


class SyncDerived:
    """Syncs what was written to queues and index, then moves the checkpoint."""

    name = "sync queues and index"

    def __init__(self, files: Files, root: str, paths: list[str], folders: list[str], checkpoint: Checkpoint) -> None:
        self._files = files
        self._root = root
        self.paths = paths
        self.folders = folders
        self.checkpoint = checkpoint
        self.sync_failed = False
        """True when what was written may be lost; after any other failure the same can be tried again."""

    def run(self) -> None:
        """Sync all, and only then write the checkpoint, which promises just that."""
        try:
            sync_files(self._files, self.paths, self.folders)
        except SyncFailed:
            self.sync_failed = True
            raise
        write_checkpoint(self._files, self._root, self.checkpoint)


class SyncTimer:
    """Makes the timer's files safe in their order: the log, the wheel that names its units, and the checkpoint."""

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
        """A crash between two steps leaves the checkpoint before, and files that go at least as far as it says."""
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
    """Sync files and folders by their paths, with handles of its own; one that is gone is no error."""
    if len(paths) + len(folders) >= MANY and files.sync_file_systems({posixpath.dirname(path) for path in paths}):
        return
    for path in paths:
        try:
            handle = files.open(path)
        except FileFailed:
            if files.size(path) < 0:
                continue  # its topic was deleted, or its time was up, meanwhile
            raise
        try:
            files.datasync(handle)
        finally:
            files.close(handle)
    for folder in folders:
        files.sync_dir(folder)


class WriteCheckpoint:
    """Writes the checkpoint alone: the log's own times move every second."""

    name = "write the checkpoint"

    def __init__(self, files: Files, root: str, checkpoint: Checkpoint) -> None:
        self._files = files
        self._root = root
        self.checkpoint = checkpoint

    def run(self) -> None:
        """Write it."""
        write_checkpoint(self._files, self._root, self.checkpoint)
