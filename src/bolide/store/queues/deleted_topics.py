"""Deleted topics: durable tombstones, so that recovery does not dispatch their old records again.

A tombstone is on disk before any other step of a deletion, and before a message of a new topic with the same name gets
a queue offset. Tombstones are removed when the log no longer reaches below them.
"""

from __future__ import annotations

from typing import Final, final

from bolide.layout.deleted_topics import NAME, mark_line, parse_marks
from bolide.layout.errors import LayoutError
from bolide.store.disk.files import FileFailed, Files
from bolide.store.errors import StoreDamaged

SPARE_LINES: Final = 64
"""Number of outdated lines, in addition to the number of tombstones, above which the file is rewritten."""


@final
class DeletedTopics:
    """Tombstones of one store: records of `topic` below `marks[topic]` are deleted."""

    def __init__(self, files: Files, root: str) -> None:
        self.marks: dict[str, int] = {}
        """Physical offsets by topic, in the order of the deletions, as in the file."""
        self._files = files
        self._root = root
        self._path = f"{root}/{NAME}"
        self._end = -1
        """Length of the complete lines in the file in bytes, or -1 if the file does not exist."""
        self._lines = 0
        """Number of lines in the file, which exceeds the number of `marks` if some lines are outdated."""
        self._changed = False

    def load(self) -> None:
        """Load the file. Raises `StoreDamaged` if it cannot be decoded."""
        data = self._files.read_file(self._path)
        if data is None:
            return
        try:
            self.marks = parse_marks(data)
        except LayoutError as error:
            raise StoreDamaged(f"{self._root}: {error}") from error
        self._end = data.rfind(b"\n") + 1
        self._lines = data.count(b"\n")
        # A crash while the file was replaced leaves its backup as a second name, and a line must not go there, too.
        self._changed = self._files.links(self._path) > 1

    def covers(self, topic: str, physical_offset: int) -> bool:
        """Return whether the topic was deleted after this record was stored."""
        return physical_offset < self.marks.get(topic, 0)

    def start(self, log_start: int, log_end: int) -> None:
        """Drop tombstones below the log, and lower those past its end, where new records are stored. Raises
        `FileFailed`.

        A power failure with asynchronous flush can lose the end of the log, but keep a tombstone written after it.
        """
        kept = {topic: min(offset, log_end) for topic, offset in self.marks.items() if min(offset, log_end) > log_start}
        if kept != self.marks:
            self.marks = kept
            self._changed = True
            self.save()

    def lower(self, log_end: int) -> None:
        """Lower marks above `log_end` to it: those records were rolled back, and new records will get their offsets."""
        for topic, offset in self.marks.items():
            if offset > log_end:
                self.marks[topic] = log_end
                self._changed = True

    def save(self) -> None:
        """Write lowered tombstones. Call this before the next append. Raises `FileFailed`."""
        if not self._changed:
            return
        self._write(self.marks)

    def _write(self, marks: dict[str, int]) -> None:
        data = b"".join(mark_line(topic, offset) for topic, offset in marks.items())
        self._files.write_file(self._path, data)
        self._end = len(data)
        self._lines = len(marks)
        self._changed = False

    def forget_below(self, log_start: int) -> None:
        """Drop tombstones up to the new start of the log: their records are durably deleted.

        The file keeps the lines until the next tombstone is written; they have no effect.
        """
        if any(offset <= log_start for offset in self.marks.values()):
            self.marks = {topic: offset for topic, offset in self.marks.items() if offset > log_start}

    def add(self, topic: str, physical_offset: int) -> None:
        """Add a tombstone durably. Raises `FileFailed`. Then the topic and its messages are not deleted.

        After a crash or power failure before the sync, the line is complete, torn or missing. The deletion was not
        acknowledged.
        """
        self.save()
        line = mark_line(topic, physical_offset)
        try:
            if self._lines > 2 * len(self.marks) + SPARE_LINES:
                others = {name: offset for name, offset in self.marks.items() if name != topic}
                self._write({**others, topic: physical_offset})
            else:
                self._append(line)
        except FileFailed:
            self._changed = True  # the line may exist anyway, and must be removed before the next message
            raise
        self.marks.pop(topic, 0)
        self.marks[topic] = physical_offset

    def _append(self, line: bytes) -> None:
        fresh = self._end < 0
        at = max(self._end, 0)
        handle = self._files.open(self._path, fresh)
        try:
            self._files.truncate(handle, at)
            self._files.write_at(handle, [line], at)
            self._files.datasync(handle)
        finally:
            self._files.close(handle)
        if fresh:
            self._files.sync_dir(self._root)
        self._end = at + len(line)
        self._lines += 1
