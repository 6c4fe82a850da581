"""Reads of a scrub job: counts bytes and time, and replaces bytes that the disk cannot read by zeros."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bolide.store.disk.files import BytesUnreadable, Files

PAGE: Final = 4096


class Gone(Exception):
    """A file does not exist, or ends at `position`, before the bytes that were requested."""

    def __init__(self, path: str, position: int) -> None:
        super().__init__(f"the file has no byte {position}" if position else "the file does not exist or is empty")
        self.path = path
        self.position = position


@dataclass(frozen=True)
class Unreadable:
    """A range of a file whose read the disk failed."""

    path: str
    position: int
    size: int
    reason: str


class PacedReader:
    """Reads for one job. `monotonic` returns seconds."""

    def __init__(self, files: Files, monotonic: Callable[[], float]) -> None:
        self.cost = 0
        """Bytes read, at least one page per read."""
        self.waited = 0.0
        """Seconds spent in reads."""
        self.unreadable: list[Unreadable] = []
        """Ranges that were replaced by zeros."""
        self._files = files
        self._monotonic = monotonic

    def read(self, path: str, size: int, position: int) -> bytes:
        """Return bytes of a file. Raises `Gone`, and `FileFailed` for a failure that is not the disk's."""
        started = self._monotonic()
        try:
            data = self._files.scan(path, position, size)
        except BytesUnreadable:
            data = self._by_pages(path, size, position)
        self.waited += self._monotonic() - started
        self.cost += max(size, PAGE)
        if len(data) < size:
            raise Gone(path, position + len(data) if data else 0)
        return data

    def take_unreadable(self) -> list[Unreadable]:
        """Return the unreadable ranges since the last call."""
        taken, self.unreadable = self.unreadable, []
        return taken

    def _by_pages(self, path: str, size: int, position: int) -> bytes:
        """Read page by page, so that only the pages that the disk cannot read are missing."""
        parts: list[bytes] = []
        at, end = position, position + size
        while at < end:
            count = min(PAGE - at % PAGE, end - at)
            try:
                part = self._files.scan(path, at, count)
            except BytesUnreadable as error:
                part = bytes(count)
                self._note(path, at, count, str(error))
            parts.append(part)
            if len(part) < count:
                break
            at += count
        return b"".join(parts)

    def _note(self, path: str, position: int, size: int, reason: str) -> None:
        last = self.unreadable[-1] if self.unreadable else None
        if last is not None and last.path == path and last.position + last.size == position:
            self.unreadable[-1] = Unreadable(path, last.position, last.size + size, reason)
        else:
            self.unreadable.append(Unreadable(path, position, size, reason))
