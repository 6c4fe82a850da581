"""Deleted topics: marks that outlive a crash, so that recovery does not dispatch their old records again.

A mark is on disk before anything else of a deletion happens, and before a message of a new topic of the same name gets
a queue offset. Marks are removed when the log no longer reaches below them.
"""

from __future__ import annotations

from typing import Final, final

from bolide.layout.deleted_topics import NAME, mark_line, parse_marks
from bolide.layout.errors import LayoutError
from bolide.store.disk.files import FileFailed, Files
from bolide.store.errors import StoreDamaged

SPARE_LINES: Final = 64
"""Lines that are out of date beyond as many as there are marks: with more the file is written again as a whole."""


@final
class DeletedTopics:
    """The marks of one store: records of `topic` below `marks[topic]` are deleted."""

    def __init__(self, files: Files, root: str) -> None:
        self.marks: dict[str, int] = {}
        """The newest deletion is the last, as in the file."""
        self._files = files
        self._root = root
        self._path = f"{root}/{NAME}"
        self._end = -1
        """Bytes of whole lines in the file; -1 = rewrite the file."""
        self._lines = 0
        """Lines in the file; more than `marks` once some are out of date."""
        self._changed = False

    def load(self) -> None:
        """Read the file. Raises `StoreDamaged`."""
        data = self._files.read_file(self._path)
        if data is None:
            return
        try:
            self.marks = parse_marks(data)
        except LayoutError as error:
            raise StoreDamaged(f"{self._root}: {error}") from error
        self._end = data.rfind(b"\n") + 1
        self._lines = data.count(b"\n")

    def covers(self, topic: str, physical_offset: int) -> bool:
        """True when the topic was deleted after this record was stored."""
        return physical_offset < self.marks.get(topic, 0)

    def start(self, log_start: int, log_end: int) -> None:
        """Forget marks below the log, and lower those beyond its end, where new records go. Raises `FileFailed`.

        A power cut with asynchronous flush can lose the end of the log, and leave a mark that was made after it.
        """
        kept = {topic: min(offset, log_end) for topic, offset in self.marks.items() if min(offset, log_end) > log_start}
        if kept != self.marks:
            self.marks = kept
            self._changed = True
            self.save()

    def lower(self, log_end: int) -> None:
        """What was appended from here on was taken back: new records at these offsets are not deleted."""
        for topic, offset in self.marks.items():
            if offset > log_end:
                self.marks[topic] = log_end
                self._changed = True

    def save(self) -> None:
        """Write the marks that were lowered; nothing may be appended before. Raises `FileFailed`."""
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
        """The log files below this offset are gone, durably: so are the records that marks up to there cover.

        The file keeps the lines until the next mark is made; they cover nothing.
        """
        if any(offset <= log_start for offset in self.marks.values()):
            self.marks = {topic: offset for topic, offset in self.marks.items() if offset > log_start}

    def add(self, topic: str, physical_offset: int) -> None:
        """Mark a topic, durably. Raises `FileFailed`: then the topic lives on, and so do its messages.

        Crash of process or power before the sync: the line is there, or torn, or not; the deletion was not answered.
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
            self._changed = True  # the line may be there all the same: it must be gone before the next message
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
