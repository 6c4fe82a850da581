"""A commit log: its files, and the records in them (docs/protocol/store.md 1 and 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from proof.reader.records import BLANK, Record, leading


@dataclass
class Log:
    """The records of a log up to its end."""

    records: list[Record] = field(default_factory=list)
    begin: int = 0
    end: int = 0
    fault: str = ""
    """A sentence about the bytes after the last record, or "" if they are zeros."""


def files_of(folder: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the offset of the first byte, and the bytes, of each file of a log or queue."""
    for path in sorted(folder.glob("[0-9]*")):
        if path.name.isdigit():
            yield int(path.name), path.read_bytes()


def read_log(files: Iterable[tuple[int, bytes]]) -> Log:
    """Read all records up to zeros or damage."""
    log: Log | None = None
    for start, data in files:
        if not data:
            continue
        if log is None:
            log = Log(begin=start, end=start)
        if start != log.end:
            if any(data[:4096]):
                log.fault = f"the log ends at {log.end}, and another file starts at {start}"
                break
            continue
        run = leading(data, start)
        log.records += run.records
        log.end = start + run.end
        if int.from_bytes(data[run.end + 4 : run.end + 8]) == BLANK:
            log.end = start + len(data)
        elif any(data[run.end : run.end + 4096]):
            log.fault = run.why
            break
    return log or Log()
