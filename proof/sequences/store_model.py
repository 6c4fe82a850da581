"""A small store folder and what is true of it: every record that was ever acknowledged, and what damage left of it."""

from __future__ import annotations

import json
import shutil
import zlib
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

from proof.reader.errors import Unreadable
from proof.reader.records import BLANK, BORN_V6, COMMITTED, COMPRESSED, PREPARED, STORE_V6, Record, record_at
from proof.sequences.writing import checkpoint, record, record_size, unit

TOPICS = ("orders", "payments", "%RETRY%" + "g" * 130, "SCHEDULE_TOPIC_XXXX")
HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
QUEUE_FILE = 20 * 16
BEGAN_MS = 1_767_225_600_000
BODIES = ("plain", "plain", "plain", "packed", "empty", "poison", "unknown")
"""Kinds of bodies: the last two are marked as compressed and are not."""


@dataclass
class Facts:
    """What is true of a store, apart from its bytes; copied with them."""

    truth: list[Record] = field(default_factory=list)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Next queue offset, by queue."""
    at: int = 0
    """Where the next record goes."""
    now: int = BEGAN_MS
    sent: int = 0
    clean: bool = True
    flushed: int = 0
    """Store time of the last record that the checkpoint calls flushed."""
    confirm: int = 0
    logics: int = 0
    torn: int = 0
    """Bytes of an unfinished record after the log."""
    deleted: dict[str, int] = field(default_factory=dict)
    hurt: set[str] = field(default_factory=set)
    """What damage was done to: `log`, `queues`, `checkpoint`, `marks`, or `queue TOPIC`."""


class Store:
    """The folder. What it writes is what Java's broker writes; `tag` makes the bodies of this store its own."""

    def __init__(self, root: Path, tag: str, segment: int, version: str) -> None:
        self.root = root
        self.segment = segment
        self.facts = Facts()
        self._tag = tag
        self._version = version
        self._copies: list[Facts] = []
        (root / "commitlog").mkdir(parents=True)
        (root / "consumequeue").mkdir()

    # -- what a broker does

    def append(self, topic: str, queue_id: int, kind: str, size: int, tags: int, transaction: int = 0) -> Record:
        """Append a record and its queue unit."""
        self._cut_torn()
        facts = self.facts
        facts.sent += 1
        flags = transaction
        body = f"{self._tag}{facts.sent} ".encode()
        body += bytes((7 * number + facts.sent) % 251 for number in range(size))
        if kind == "packed":
            body, flags = zlib.compress(body), flags | COMPRESSED | 0x300
        elif kind == "poison":
            flags |= COMPRESSED
        elif kind == "unknown":
            flags |= COMPRESSED | 0x700
        elif kind == "empty":
            body = b""
        flags |= (BORN_V6 if size % 5 == 0 else 0) | (STORE_V6 if size % 7 == 0 else 0)
        properties = f"UNIQ_KEY\1{self._tag}-{facts.sent}\2KEYS\1k{facts.sent}\2"
        properties += f"TAGS\1{'ABC'[tags % 3]}\2" if tags % 4 else ""
        if transaction == PREPARED:
            topic, queue_id = HALF, 0
            flags &= ~PREPARED  # a broker clears the bits of a half message; its topic says what it is
        wide = len(topic) > 127
        full = record_size(topic, body, properties, flags, wide)
        base = facts.at // self.segment * self.segment
        if full + 8 > base + self.segment - facts.at:
            rest = base + self.segment - facts.at
            self._put_log(facts.at, rest.to_bytes(4, "big") + BLANK.to_bytes(4, "big"))
            facts.at = base + self.segment
        facts.now += 1 + size % 50
        offset = facts.ends.get((topic, queue_id), 0)
        row = Record(facts.at, full, topic, queue_id, offset, flags, facts.now, body, properties)
        self._put_log(facts.at, record(row, wide))
        self._put_unit(row)
        facts.ends[topic, queue_id] = offset + 1
        facts.truth.append(row)
        facts.at += full
        if facts.clean:
            self.flush()
        return row

    def flush(self) -> None:
        """The checkpoint learns that everything is on disk."""
        facts = self.facts
        if not facts.truth:
            return
        last = facts.truth[-1]
        facts.flushed = last.stored_ms
        facts.logics = 0 if self._version == "4.9" else last.at
        facts.confirm = 0 if self._version == "4.9" else last.at
        (self.root / "checkpoint").write_bytes(checkpoint(facts.flushed, facts.confirm, facts.logics))
        facts.hurt.discard("checkpoint")

    def start(self) -> None:
        """A broker runs: `abort` exists, and the checkpoint is behind. It cuts what a kill left unfinished."""
        self._cut_torn()
        self.facts.clean = False
        (self.root / "abort").write_bytes(b"1")

    def stop(self) -> None:
        """It stops cleanly."""
        self._cut_torn()
        self.facts.clean = True
        self.flush()
        (self.root / "abort").unlink(missing_ok=True)

    def torn(self, size: int) -> None:
        """A kill leaves part of a record that was never acknowledged."""
        self.start()
        row = Record(self.facts.at, 400, "orders", 0, 0, 0, self.facts.now, b"torn" * 50, "")
        data = record(row)[: 1 + size % 200]
        room = self.segment - self.facts.at % self.segment
        data = data[: max(room - 8, 0)]
        self._put_log(self.facts.at, data)
        self.facts.torn = len(data)

    def _cut_torn(self) -> None:
        if self.facts.torn:
            self._put_log(self.facts.at, bytes(self.facts.torn))
        self.facts.torn = 0

    def expire(self) -> bool:
        """The broker deletes the oldest file of the log; False if it has only one."""
        files = self.files()
        if len(files) < 2:
            return False
        files[0].unlink()
        self.facts.truth = [row for row in self.facts.truth if row.at >= int(files[1].name)]
        return True

    def delete_topic(self, topic: str) -> None:
        """Delete a topic as Bolide's broker does: its records stay in the log, below a mark."""
        facts = self.facts
        facts.deleted[topic] = facts.at
        with (self.root / "deleted-topics").open("ab") as file:
            file.write(json.dumps({"topic": topic, "offset": facts.at}).encode() + b"\n")
        shutil.rmtree(self.root / "consumequeue" / topic, ignore_errors=True)
        facts.hurt.discard(f"queue {topic}")
        facts.ends = {queue: end for queue, end in facts.ends.items() if queue[0] != topic}

    # -- what operators do

    def copy(self) -> int:
        """Take a copy of the folder; returns its number."""
        shutil.copytree(self.root, self._copy_of(len(self._copies)))
        self._copies.append(deepcopy(self.facts))
        return len(self._copies) - 1

    def restore(self, number: int) -> bool:
        """Put a copy in place of the folder; False if there is none. Bodies sent from now on differ from all before."""
        if not self._copies:
            return False
        number %= len(self._copies)
        shutil.rmtree(self.root)
        shutil.copytree(self._copy_of(number), self.root)
        sent = self.facts.sent
        self.facts = deepcopy(self._copies[number])
        self.facts.sent = sent
        self.facts.now += sent
        return True

    def replace(self) -> None:
        """An empty store takes the place of this one."""
        shutil.rmtree(self.root)
        (self.root / "commitlog").mkdir(parents=True)
        (self.root / "consumequeue").mkdir()
        self.facts = Facts(sent=self.facts.sent, now=self.facts.now + 100_000)

    def _copy_of(self, number: int) -> Path:
        return self.root.with_name(f"copy-{number}")

    # -- what is true

    def files(self) -> list[Path]:
        """The files of the log."""
        return sorted(self.root.glob("commitlog/[0-9]*"))

    def now(self, rows: list[Record]) -> dict[int, Record | None]:
        """Read the records at the offsets of `rows`; None for unreadable ones. Bodies may be damaged."""
        held = {int(path.name): path.read_bytes() for path in self.files()}
        found: dict[int, Record | None] = {}
        for row in rows:
            base = row.at // self.segment * self.segment
            try:
                found[row.at] = record_at(held.get(base, b""), row.at - base, base, crc=False)
            except Unreadable:
                found[row.at] = None
        return found

    def alive(self) -> list[Record]:
        """The records that count: neither expired nor of a deleted topic."""
        files = self.files()
        first = int(files[0].name) if files else self.facts.at
        deleted = self.facts.deleted
        return [row for row in self.facts.truth if row.at >= max(first, deleted.get(row.topic, 0))]

    def named(self) -> int:
        """The offset up to which files that nothing has damaged name records."""
        facts = self.facts
        ends = [0] if "checkpoint" in facts.hurt else [facts.logics + 1 if facts.logics else 0, facts.confirm]
        for row in reversed(facts.truth):
            if row.at >= facts.deleted.get(row.topic, 0) and not facts.hurt & {"queues", f"queue {row.topic}"}:
                ends.append(row.at + row.size)
                break
        return max(ends)

    def silent_tail(self, now: dict[int, Record | None]) -> set[int]:
        """Lost records at the end of the log that nothing names, so that no reader can know of them."""
        named = self.named()
        found: set[int] = set()
        for row in reversed(self.facts.truth):
            if now.get(row.at) is not None or row.at < named:
                break
            found.add(row.at)
        if found and self.facts.clean and self._bytes_from(min(found)):
            return set()  # bytes after the last record of a store that was stopped cleanly say that something was there
        return found

    def _bytes_from(self, at: int) -> bool:
        base = at // self.segment * self.segment
        return any(
            any(path.read_bytes()[max(at - int(path.name), 0) :]) for path in self.files() if int(path.name) >= base
        )

    # -- bytes

    def _put_log(self, at: int, data: bytes) -> None:
        base = at // self.segment * self.segment
        self._put(self.root / "commitlog" / f"{base:020d}", at - base, data, self.segment)

    def _put_unit(self, row: Record) -> None:
        if not row.queued:
            return
        at = row.queue_offset * 20
        base = at // QUEUE_FILE * QUEUE_FILE
        folder = self.root / "consumequeue" / row.topic / str(row.queue_id)
        folder.mkdir(parents=True, exist_ok=True)
        self._put(folder / f"{base:020d}", at - base, unit(row), QUEUE_FILE)

    def _put(self, path: Path, at: int, data: bytes, size: int) -> None:
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            file.seek(at)
            file.write(data)


def committed(store: Store, topic: str, queue_id: int, size: int) -> None:
    """A half message and, later in the log, the message that its commit makes."""
    store.append(topic, queue_id, "plain", size, 1, PREPARED)
    store.append(topic, queue_id, "plain", size, 1, COMMITTED)
