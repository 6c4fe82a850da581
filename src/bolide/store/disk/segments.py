"""Files of fixed size that form one stream of bytes: commit log, consume queue, queue extension.

The rules are RocketMQ's MappedFileQueue: a file is named after the offset of its first byte (20 digits), has its full
length from the start, and unwritten bytes are zeros. The end of the written part is not stored here: the reader of the
content (commit log, consume queue) determines it in recovery.
"""

from __future__ import annotations

import posixpath
from typing import Final, final

from mypy_extensions import i64

from bolide.store.disk.copies import copy_bytes
from bolide.store.disk.extents import Extent
from bolide.store.disk.files import Files
from bolide.store.disk.handles import HandleCache
from bolide.store.errors import StoreDamaged

__all__ = ["NAME_DIGITS", "Extent", "HandleCache", "Segment", "SegmentList", "make_segment", "segment_name", "unshare"]

NAME_DIGITS: Final = 20
RESERVE_FIRST: Final = 4 * 1024 * 1024
"""Number of bytes of a new log file that get blocks immediately if it is created while a message waits for it."""


def segment_name(start: int) -> str:
    """Return the file name of the segment that starts at this offset."""
    return str(int(start)).zfill(NAME_DIGITS)


@final
class Segment:
    """One file of the stream."""

    def __init__(self, start: i64, path: str) -> None:
        self.start: i64 = start
        self.path = path


@final
class SegmentList:
    """The files of one folder as one stream of bytes. Offsets are offsets in the stream.

    `reserve` allocates blocks at the start of new files (commit log); otherwise they are sparse (queues). All calls
    raise `FileFailed`.
    """

    def __init__(
        self, files: Files, folder: str, segment_size: int, handles: HandleCache, reserve: bool = False
    ) -> None:
        if segment_size <= 0:
            raise ValueError(f"segment size {segment_size} of {folder} is not positive")
        self.files = files
        self.folder = folder
        self.segment_size: i64 = segment_size
        self.handles = handles
        self.reserve = reserve
        self._segments: list[Segment] = []
        self._folder_made = False

    # -- what there is --

    @property
    def min_offset(self) -> i64:
        """Start of the oldest file, or 0 if there is none."""
        return self._segments[0].start if self._segments else 0

    @property
    def end_of_files(self) -> i64:
        """End of the newest file, or 0 if there is none."""
        return self._segments[-1].start + self.segment_size if self._segments else 0

    def is_empty(self) -> bool:
        """Return whether the list has no file."""
        return not self._segments

    def segment_starts(self) -> list[int]:
        """Return the start offset of each file, oldest first."""
        return [int(segment.start) for segment in self._segments]

    def path_at(self, offset: i64) -> str:
        """Return the path of the file that contains this offset, or ""."""
        segment = self._at(offset)
        return segment.path if segment is not None else ""

    def path_for(self, offset: i64) -> str:
        """Return the current or future path of the file with this offset."""
        return self.folder + "/" + segment_name(offset - offset % self.segment_size)

    def extent(self, offset: i64, size: i64) -> Extent:
        """Return the range within one segment as an `Extent`, for loading it into memory elsewhere."""
        return Extent(self.path_for(offset), offset % self.segment_size, size)

    def load(self, derived: bool = False) -> list[str]:
        """List the files in the folder. Return the paths of the derived files that were deleted.

        A newest file of length 0 is an interrupted creation and is deleted. For a log, any other wrong length and a gap
        between files raise `StoreDamaged`. For a derived stream, that file and all later files are deleted, because
        dispatch recreates them.
        """
        names = [name for name in self.files.list_dir(self.folder) if len(name) == NAME_DIGITS and name.isdigit()]
        self._segments = []
        dropped: list[str] = []
        self._folder_made = bool(names)
        for index, name in enumerate(names):
            path = self.folder + "/" + name
            size = self.files.size(path)
            if size < 0:
                continue  # a folder named by a number does not belong to the store
            if size == 0 and index == len(names) - 1:
                self.files.remove(path)
                continue
            start: i64 = int(name)
            expected = self._segments[-1].start + self.segment_size if self._segments else start
            refusal = ""
            if size != self.segment_size:
                refusal = f"{path} has {size} bytes but the configured file size is {self.segment_size}"
            elif start % self.segment_size != 0 or start != expected:
                refusal = f"{path} does not follow the file before it; one is missing or misnamed"
            if refusal and not derived:
                raise StoreDamaged(refusal + "; set the right size, or move the file away")
            if refusal or dropped:
                dropped.append(path)
            else:
                self._segments.append(Segment(start, path))
        # Newest first, so that a crash in between leaves a shorter stream, never one with a gap.
        for path in reversed(dropped):
            self._remove(path)
        return dropped

    def sync_names(self) -> None:
        """Sync the folder, so that a power failure does not remove the names of the files. Blocks on the disk."""
        self.files.sync_dir(self.folder)

    def sync_later(self) -> None:
        """Mark the newest file and the folders for a sync. The process that created the files may have ended before it
        synced their names, their folders' names, and bytes that it wrote or wiped in the newest. Recovery does not
        rewrite correct content, so no other step would sync it."""
        if self._segments:
            self.handles.wrote(self._segments[-1].path)
            parent = posixpath.dirname(self.folder)
            for folder in (self.folder, parent, posixpath.dirname(parent)):
                self.handles.renamed(folder)

    # -- writing --

    def write(self, offset: i64, buffers: list[bytes]) -> None:
        """Write the buffers contiguously at `offset`. They must end within the segment in which they start."""
        total: i64 = 0
        for buffer in buffers:
            total += len(buffer)
        within = offset % self.segment_size
        if within + total > self.segment_size:
            raise ValueError(f"write of {total} bytes at {offset} of {self.folder} would cross a segment's end")
        segment = self._at(offset)
        while segment is None:
            segment = self._add(offset)
        path = segment.path
        self.files.write_at(self.handles.get(path), buffers, within)
        # After a process crash here, the kernel has the bytes. They survive a power failure only after `datasync_to`.
        self.handles.wrote(path)

    def create_at(self, offset: i64) -> None:
        """Create the segment of this offset if it is missing, and segments between it and the newest one."""
        while self._at(offset) is None:
            self._add(offset)

    def adopt(self, start: i64) -> None:
        """Add the file that was created ahead of use and starts at the end of the newest one."""
        if not self._segments or start == self.end_of_files:
            self._folder_made = True
            self._segments.append(Segment(start, self.folder + "/" + segment_name(start)))

    def _add(self, offset: i64) -> Segment | None:
        """Create the next file towards `offset`. Return it if it contains the offset."""
        start = self.end_of_files if self._segments else offset - offset % self.segment_size
        if offset < start:
            raise ValueError(f"offset {offset} of {self.folder} is below its first file; the file was deleted")
        path = self.folder + "/" + segment_name(start)
        if not self._folder_made:
            self.files.make_dir(self.folder)
            parent = posixpath.dirname(self.folder)
            self.handles.renamed(parent)
            self.handles.renamed(posixpath.dirname(parent))
            self._folder_made = True
        size = int(self.segment_size)
        make_segment(self.files, self.handles, path, size, min(RESERVE_FIRST, size) if self.reserve else 0)
        if not self.reserve:
            self.handles.renamed(self.folder)
        segment = Segment(start, path)
        self._segments.append(segment)
        return segment if offset < start + self.segment_size else None

    # -- reading --

    def read(self, offset: i64, size: i64) -> bytes:
        """Return up to `size` bytes, fewer only at the end of the files, or b"" outside them. May block on the disk."""
        segment = self._at(offset)
        if segment is None or size <= 0:
            return b""
        within = offset - segment.start
        if within + size <= self.segment_size:
            return self.handles.read(segment.path, size, within)
        parts: list[bytes] = []
        while size > 0 and segment is not None:
            within = offset - segment.start
            part: i64 = min(size, self.segment_size - within)
            data = self.handles.read(segment.path, part, within)
            parts.append(data)
            if len(data) < part:
                break
            offset += part
            size -= part
            segment = self._at(offset)
        return b"".join(parts)

    def read_warm(self, offset: i64, size: i64) -> bytes | None:
        """Like `read`, but return None if bytes are not in memory. The caller must then load `extent(offset, size)`."""
        segment = self._at(offset)
        if segment is None or size <= 0:
            return b""
        within = offset - segment.start
        if within + size <= self.segment_size:
            return self.files.read_warm(self.handles.get(segment.path), size, within)
        parts: list[bytes] = []
        while size > 0 and segment is not None:
            within = offset - segment.start
            part: i64 = min(size, self.segment_size - within)
            data = self.files.read_warm(self.handles.get(segment.path), part, within)
            if data is None:
                return None
            parts.append(data)
            if len(data) < part:
                break
            offset += part
            size -= part
            segment = self._at(offset)
        return b"".join(parts)

    def view_warm(self, offset: i64, size: i64) -> memoryview | None:
        """Return a view of the bytes, which the caller must copy immediately, or None if it must use `read_warm`."""
        segment = self._at(offset)
        if segment is None:
            return None
        within = offset - segment.start
        if within + size > self.segment_size:
            return None
        return self.files.view_warm(self.handles.get(segment.path), size, within)

    def next_data(self, offset: i64) -> i64:
        """Return the first offset at or after this one, within its file, that may contain non-zero bytes, or -1."""
        segment = self._at(offset)
        if segment is None:
            return -1
        found: i64 = self.files.next_data(self.handles.get(segment.path), offset - segment.start)
        return segment.start + found if found >= 0 else -1

    # -- syncing and deleting --

    def datasync_to(self, offset: i64, since: i64 = 0) -> None:
        """Sync the bytes in [since, offset) on this thread (start and end of the store)."""
        for segment in self._segments:
            if segment.start < offset and segment.start + self.segment_size > since:
                self.files.datasync(self.handles.get(segment.path))
                self.handles.synced(segment.path)
        self.files.sync_dir(self.folder)

    def truncate_to(self, offset: i64) -> list[str]:
        """Delete the files that start at or after `offset`, newest first, so that a crash never leaves a gap.

        The file that contains `offset` is not changed: the caller records the new end of the stream.
        """
        removed: list[str] = []
        while self._segments and self._segments[-1].start >= offset:
            segment = self._segments.pop()
            self._remove(segment.path)
            removed.append(segment.path)
        return removed

    def delete_before(self, offset: i64, limit: i64 = 1 << 62) -> list[str]:
        """Delete the oldest files that end at or before `offset`, at most `limit`, never the last one.

        Return the deleted paths.
        """
        removed = self.detach_before(offset, limit)
        for path in removed:
            self._remove(path)
        return removed

    def detach_before(self, offset: i64, limit: i64 = 1 << 62) -> list[str]:
        """Like `delete_before`, but only remove the files from the list: the caller deletes them elsewhere, oldest
        first.

        After a crash before they are deleted, the next start finds them, and they expire again.
        """
        gone: list[str] = []
        while len(self._segments) > 1 and limit > len(gone):
            segment = self._segments[0]
            if segment.start + self.segment_size > offset:
                break
            del self._segments[0]
            self.handles.drop(segment.path)
            gone.append(segment.path)
        return gone

    def destroy(self) -> None:
        """Delete all files and the folder, because the topic was deleted."""
        while self._segments:
            self._remove(self._segments.pop().path)
        self.files.remove(self.folder)
        self._folder_made = False

    def close(self) -> None:
        """Close the handles of these files."""
        for segment in self._segments:
            self.handles.drop_handle(segment.path)

    def _remove(self, path: str) -> None:
        self.handles.drop(path)
        self.files.remove(path)
        # Sync each name separately: otherwise a power failure could restore an older file without its successor, and
        # the next start would find a gap.
        self.files.sync_dir(self.folder)

    def _at(self, offset: i64) -> Segment | None:
        segments = self._segments
        if not segments:
            return None
        index = (offset - segments[0].start) // self.segment_size
        if offset < segments[0].start or index >= len(segments):
            return None
        return segments[index]


def unshare(segments: SegmentList, end: i64) -> None:
    """Separate the file that contains `end`, and the file before it, from other stores with hard links to them.

    Call this before the stream is truncated to `end`, or a byte at `end` is overwritten. A file with another name is
    durably replaced by a new file with the same bytes. A crash leaves the shared file and a part of its copy, which the
    next call replaces. Blocks on the disk. Raises `FileFailed`; the shared file is then unchanged.
    """
    for offset in (end - 1, end):
        path = segments.path_at(offset)
        if path == "" or segments.files.links(path) < 2:
            continue
        start = offset - offset % segments.segment_size
        copy_bytes(segments.files, segments.read, path, start, start + segments.segment_size)
        segments.files.sync_dir(segments.folder)
        segments.handles.drop(path)  # it is open for the shared file


def make_segment(files: Files, handles: HandleCache | None, path: str, size: int, reserve: int) -> None:
    """Create a segment file of zeros, sparse except for the first `reserve` bytes. If `reserve` is above 0, sync the
    file and its name.

    Without `handles`, this runs in the pool, and the writer may create the same file at the same time and write to it.
    So a file created by the pool has no name until it is complete. A crash or power failure in between leaves an empty
    newest file, which `load` deletes, or a complete file of zeros, which recovery treats as the end of the stream.
    After `SyncFailed`, the file must not be used (see `MessageStore`).
    """
    if reserve <= 0:
        if handles is not None:
            handles.get(path, size)
        return
    folder = posixpath.dirname(path)
    if handles is not None or files.size(path) >= 0 or not _made_unnamed(files, folder, path, size, reserve):
        handle = files.open(path, True, size)
        try:
            if handles is not None:
                files.reserve_new(handle, reserve)  # no other thread writes there
            else:
                files.reserve(handle, 0, reserve)
            files.datasync(handle)
        finally:
            files.close(handle)
    files.sync_dir(folder)


def _made_unnamed(files: Files, folder: str, path: str, size: int, reserve: int) -> bool:
    """Create the file without a name, then name it. Return False if this is not supported or the name exists."""
    handle = files.open_unnamed(folder)
    if handle < 0:
        return False
    try:
        files.reserve_new(handle, reserve)
        files.truncate(handle, size)
        files.datasync(handle)
        return files.link_unnamed(handle, path)
    finally:
        files.close(handle)
