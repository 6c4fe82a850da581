"""The result of an audit of a store, for a table, for JSON and for a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

KEPT: Final = 1_000
"""Maximum number of stored findings per kind of file. All findings are counted."""


@dataclass(frozen=True)
class Finding:
    """A deviation from RocketMQ's format: the file, the byte in it (or an offset), and one sentence."""

    path: str
    position: int
    sentence: str


@dataclass
class QueueRow:
    """A queue: the number of its records in the log, the units of its files, and their queue offsets."""

    topic: str
    queue_id: int
    records: int = 0
    units: int = 0
    first: int = 0
    end: int = 0
    findings: int = 0


@dataclass
class IndexRow:
    """An index file."""

    name: str
    entries: int = 0
    slots: int = 0
    findings: int = 0


@dataclass
class Verdict:
    """The result. `notes` are not faults, for example differences that a broker repairs automatically at startup."""

    store: str
    log_files: int = 0
    log_bytes: int = 0
    first_offset: int = 0
    end_offset: int = 0
    records: int = 0
    units: int = 0
    ext_units: int = 0
    index_entries: int = 0
    consumer_offsets: int = 0
    seconds: float = 0.0
    count: int = 0
    """Number of all findings."""
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    index: list[IndexRow] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """Whether there are no findings."""
        return self.count == 0

    def add(self, found: Findings) -> None:
        """Add all findings of a task."""
        self.count += found.count
        self.findings += found.kept

    def find(self, path: str, position: int, sentence: str) -> None:
        """Add a finding."""
        self.count += 1
        self.findings.append(Finding(path, position, sentence))


@dataclass
class Findings:
    """The findings of a task. Stores only as many as are shown."""

    count: int = 0
    kept: list[Finding] = field(default_factory=list)

    def find(self, path: str, position: int, sentence: str) -> None:
        """Add a finding."""
        self.count += 1
        if len(self.kept) < KEPT:
            self.kept.append(Finding(path, int(position), sentence))

    def each(self, many: int, some: Iterable[tuple[str, int, str]]) -> None:
        """Add `many` findings, and store as many from an iterator as the limit allows."""
        for path, position, sentence in some:
            if len(self.kept) >= KEPT:
                break
            self.kept.append(Finding(path, int(position), sentence))
        self.count += many
