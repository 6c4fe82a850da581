"""What must be true of a store's files after a recovery, judged by the book and by the bytes alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from proof.reader.errors import Unreadable
from proof.reader.index import key_hash, read_index
from proof.reader.log import read_log
from proof.reader.queues import Unit, java_hash, read_units
from proof.reader.records import Record
from proof.reader.tables import read_json
from proof.simulation.cuts.book import DONE, REFUSED, Book, Sent
from proof.simulation.cuts.machine import ROOT
from proof.simulation.disk import Disk

SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
TIMER: Final = "rmq_sys_wheel_timer"
HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OPS: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
WAITING: Final = {"level": SCHEDULE, "timer": TIMER, "half": HALF}
LEVELS_MS: Final = (1_000, 3_000, 10_000)
ADDED: Final = {
    "MSG_REGION",
    "TRACE_ON",
    "CLUSTER",
    "REAL_TOPIC",
    "REAL_QID",
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_ROLL_TIMES",
    "TRANSACTION_CHECK_TIMES",
    "__transactionId__",
    "DELAY",
    "__CRC32#",
}
"""Properties that a broker adds."""


@dataclass
class Store:
    """What the files say."""

    records: list[Record]
    begin: int
    end: int
    marks: dict[str, int]

    def gone(self, record: Record) -> bool:
        """True for a record of a topic that was deleted after it."""
        return record.at < self.marks.get(record.topic, 0)


class Checks:
    """The checks of one store. `sync` is the flush mode."""

    def __init__(self, disk: Disk, book: Book, sync: bool, index_slots: int) -> None:
        self._disk = disk
        self._book = book
        self._sync = sync
        self._slots = index_slots
        self.expired = 0
        """Log files from before this time may have been deleted, and their units and entries before them."""

    def _read(self, path: str) -> bytes | None:
        return self._disk.content(path)

    def _files(self, folder: str) -> Iterator[tuple[int, bytes]]:
        return _files(self._disk.names, self._disk.content, folder)

    def store(self) -> Store:
        """Read the log and the marks."""
        log = read_log(self._files("commitlog"))
        marks: dict[str, int] = {}
        for line in (self._read(ROOT + "/deleted-topics") or b"").split(b"\n")[:-1]:
            mark = json.loads(line)
            marks[mark["topic"]] = mark["offset"]
        return Store(log.records, log.begin, log.end, marks)

    def before_cut(self) -> None:
        """With an asynchronous flush: note what must survive, which is what the worst power cut would leave."""
        if self._sync:
            return
        worst = self._disk.clone()
        worst.power_cut(0)
        records = read_log(_files(worst.list_dir, worst.read_file, "commitlog")).records
        whole = next((n for n, record in enumerate(records) if "\0" in record.properties_text), len(records))
        found = [(record, self._sent(record)) for record in records[:whole]]
        stored = {sent.uid for record, sent in found if sent is not None and sent.place == record.at}
        self._book.survive(stored, {s.uid for r, s in found if s is not None and r.topic == s.topic})

    # -- the log, which is complete at any time --

    def after_recovery(self, after_kill: bool = False) -> list[str]:
        """The log and the tables, just after a boot. What was not certain in the book becomes what the disk says."""
        store = self.store()
        wrong = self._unknown_records(store) + self._acknowledged(store, after_kill) + self._repeated(store)
        wrong += self._topics() + self._groups() + self._deletions(store) + self._offsets()
        self._settle(store)
        return wrong

    def _sent(self, record: Record) -> Sent | None:
        return self._book.sent.get(record.body.split(b"|", 1)[0].decode("ascii", "replace"))

    def _unknown_records(self, store: Store) -> list[str]:
        """Every record is a message of the book, byte for byte."""
        wrong: list[str] = []
        for record in store.records:
            if record.topic == OPS:
                if not record.body.replace(b",", b"").isdigit():
                    wrong.append(f"the op record at {record.at} says {record.body!r}")
                continue
            sent = self._sent(record)
            name = f"the record at {record.at} of {record.topic!r}"
            if sent is None:
                wrong.append(f"{name} was sent by nobody: {record.body[:20]!r}")
            elif record.body != sent.body:
                wrong.append(f"{name} has another body than {sent.uid}")
            elif record.topic not in (sent.topic, WAITING.get(sent.kind), GIVEN_UP):
                wrong.append(f"{name} holds {sent.uid}, which was sent to {sent.topic}")
            elif record.topic == sent.topic and record.queue_id != sent.queue_id:
                wrong.append(f"{name} is in queue {record.queue_id}, {sent.uid} was sent to {sent.queue_id}")
            elif sent.state == REFUSED:
                wrong.append(f"{name} holds {sent.uid}, which was refused")
            else:
                wrong += [f"{name}, {sent.uid}: {problem}" for problem in _other_properties(record, sent)]
        return wrong

    def _acknowledged(self, store: Store, after_kill: bool) -> list[str]:
        """What was acknowledged is where the answer said; a kill takes nothing, whatever the flush mode."""
        wrong: list[str] = []
        at = {record.at: record for record in store.records}
        for sent in self._book.sent.values():
            if sent.state != DONE or not (self._sync or sent.safe or after_kill) or sent.place < store.begin:
                continue
            found = at.get(sent.place)
            if found is None or self._sent(found) is not sent or found.queue_offset != sent.queue_offset:
                wrong.append(f"{sent.uid} ({sent.kind} of {sent.topic}) was acknowledged at {sent.place} and is lost")
        if store.begin and not self._book.expiry_asked:
            wrong.append(f"the log begins at {store.begin}, and nobody let files expire")
        return wrong

    def _arrived(self, store: Store) -> Counter[str]:
        """How often each message is in its own topic."""
        found = [(record, self._sent(record)) for record in store.records]
        return Counter(sent.uid for record, sent in found if sent is not None and record.topic == sent.topic)

    def _repeated(self, store: Store) -> list[str]:
        """No message is in its topic twice; what the broker delivers may be, once for each boot since."""
        wrong: list[str] = []
        count = self._arrived(store)
        waiting = Counter(
            sent.uid
            for record in store.records
            if record.topic in (SCHEDULE, TIMER) and (sent := self._sent(record)) is not None
        )
        for uid, times in count.items():
            sent = self._book.sent[uid]
            if sent.kind == "half" and sent.end != "commit":
                wrong.append(f"{uid} is in {sent.topic} and was not committed")
            if times > 1 and sent.kind not in ("level", "timer"):
                wrong.append(f"{uid} ({sent.kind}) is in {sent.topic} {times} times")
        wrong += [f"{uid} waits for its time {times} times" for uid, times in waiting.items() if times > 1]
        return wrong

    # -- tables --

    def _table(self, name: str) -> Any:
        """Read a table, or its older copy if it is unreadable."""
        for path in (f"{ROOT}/config/{name}.json", f"{ROOT}/config/{name}.json.bak"):
            with suppress(Unreadable):
                return read_json(self._read(path) or b"") or {}
        return {}

    def _topics(self) -> list[str]:
        wrong: list[str] = []
        table = self._table("topics").get("topicConfigTable", {})
        for topic in self._book.topics.values():
            found = int(table[topic.name]["writeQueueNums"]) if topic.name in table else 0
            if found not in topic.states:
                wrong.append(f"topic {topic.name} has {found} queues, and should have {sorted(topic.states)}")
            topic.states = {found}
        return wrong

    def _groups(self) -> list[str]:
        wrong: list[str] = []
        table = self._table("subscriptionGroup").get("subscriptionGroupTable", {})
        for group in self._book.groups.values():
            found = int(group.name in table)
            if found not in group.states:
                wrong.append(f"group {group.name}: {found} of it, and should be {sorted(group.states)}")
            group.states = {found}
        return wrong

    def _offsets(self) -> list[str]:
        wrong: list[str] = []
        table = self._table("consumerOffset").get("offsetTable", {})
        for (group, topic, queue_id), most in self._book.offsets.items():
            found = table.get(f"{topic}@{group}", {}).get(str(queue_id), 0)
            if found > most:
                wrong.append(f"{group} is at {found} of {topic} {queue_id}, and never said more than {most}")
        return wrong

    def _deletions(self, store: Store) -> list[str]:
        """A deletion took all older messages of its topic or none; an answered one took them all."""
        wrong: list[str] = []
        for topic in self._book.topics.values():
            epochs: dict[int, set[bool]] = defaultdict(set)
            for record in store.records:
                sent = self._sent(record)
                if sent is not None and record.topic == sent.topic == topic.name:
                    epochs[sent.epoch].add(store.gone(record))
            for epoch, gone in epochs.items():
                if len(gone) > 1:
                    wrong.append(f"a deletion of {topic.name} took some of its messages")
                elif epoch < topic.certain_epoch and gone == {False}:
                    wrong.append(f"{topic.name} was deleted, and messages of it are back")
                elif epoch >= topic.epoch and gone == {True}:
                    wrong.append(f"messages of {topic.name} are gone, and nobody deleted it")
        return wrong

    def _settle(self, store: Store) -> None:
        """From here on the disk is the truth about what nobody knows."""
        present = {sent.uid: record for record in store.records if (sent := self._sent(record)) is not None}
        for record in store.records:
            found = self._sent(record)
            if found is not None and record.topic == found.topic and store.gone(record):
                topic = self._book.topics[record.topic]
                topic.certain_epoch = max(topic.certain_epoch, found.epoch + 1)
        for sent in self._book.sent.values():
            if sent.end_state == DONE and not (self._sync or sent.end_safe):
                sent.end_state = "unknown"
            if sent.state == DONE and sent.uid not in present and sent.place >= store.begin:
                sent.state = "unknown"  # acknowledged by an asynchronous flush, and lost

    # -- queues and index, after a clean stop --

    def after_stop(self) -> list[str]:
        """Every derived file agrees with the log."""
        store = self.store()
        wrong = self._unknown_records(store) + self._repeated(store)
        for name in ("abort",):
            if self._read(f"{ROOT}/{name}") is not None:
                wrong.append(f"a clean stop left {name}")
        expected: dict[tuple[str, int], list[Record]] = defaultdict(list)
        for record in store.records:
            if record.queued and not store.gone(record):
                expected[record.topic, record.queue_id].append(record)
        for topic in self._disk.names(ROOT + "/consumequeue"):
            for queue_id in self._disk.names(f"{ROOT}/consumequeue/{topic}"):
                records = expected.pop((topic, int(queue_id)), [])
                files = self._files(f"consumequeue/{topic}/{queue_id}")
                units = {unit.number: unit for unit in read_units(files)}
                wrong += self._queue(f"{topic} {queue_id}", records, units, store)
        wrong += [f"{topic} {queue_id} has {len(r)} records and no queue" for (topic, queue_id), r in expected.items()]
        return wrong + self._index(store)

    def may_be_gone(self, record: Record) -> bool:
        """True when what leads to a record may be deleted already, and the record not yet."""
        return self._book.expiry_asked and record.stored_ms <= self.expired

    def _queue(self, name: str, records: list[Record], units: dict[int, Unit], store: Store) -> list[str]:
        wrong: list[str] = []
        left = {number: unit for number, unit in units.items() if unit.at >= store.begin}
        first = min(units, default=0)
        for record in records:
            if record.queue_offset < first and self.may_be_gone(record):
                continue
            unit = left.pop(record.queue_offset, None)
            if unit is None or (unit.at, unit.size) != (record.at, record.size):
                wrong.append(f"{name}: unit {record.queue_offset} is {unit}, the record is at {record.at}")
            elif unit.code != _tags_code(record):
                wrong.append(f"{name}: unit {record.queue_offset} has the tags code {unit.code}")
        if left:
            wrong.append(f"{name}: units {sorted(left)[:5]} name no record of the queue")
        numbers = [record.queue_offset for record in records]
        if numbers != list(range(numbers[0], numbers[0] + len(numbers))) if numbers else False:
            wrong.append(f"{name}: the records of the queue are numbered {numbers[:20]}")
        return wrong

    def _index(self, store: Store) -> list[str]:
        wrong: list[str] = []
        entries = Counter(read_index((data for _, data in self._files("index")), self._slots))
        known = set()
        for record in store.records:
            pairs = record.properties
            if record.sys_flag & 0xC == 0xC:
                continue
            keys = [pairs.get("UNIQ_KEY", ""), *pairs.get("KEYS", "").split(" ")]
            keys += ["T#" + pairs["TAGS"]] if pairs.get("TAGS") else []
            for key in keys:
                if key:
                    entry = (key_hash(record.topic, key), record.at)
                    known.add(entry)
                    if not entries[entry] and not self.may_be_gone(record):
                        wrong.append(f"the index lacks {key} of {record.topic}, whose record is at {record.at}")
        stray = [entry for entry in entries if entry not in known and entry[1] >= store.begin]
        if stray:
            wrong.append(f"the index names records that are not there: {stray[:3]}")
        return wrong

    # -- at the end of a store's life, when every time has come --

    def at_the_end(self) -> list[str]:
        """Everything acknowledged has arrived."""
        store = self.store()
        wrong: list[str] = []
        arrived = self._arrived(store)
        given_up = {sent.uid for r in store.records if r.topic == GIVEN_UP and (sent := self._sent(r)) is not None}
        if given_up and not self._book.hours_passed:
            wrong.append(f"{sorted(given_up)} were given up, and their time was not over")
        expired = {record.at for record in store.records if self.may_be_gone(record)}
        for sent in self._book.sent.values():
            if sent.uid in given_up or sent.place in expired:
                continue
            if sent.state != DONE or not (self._sync or sent.safe) or sent.place < store.begin:
                continue
            if sent.kind in ("level", "timer") and not arrived[sent.uid]:
                wrong.append(f"{sent.uid} ({sent.kind}) was acknowledged and never delivered")
            if sent.kind == "half":
                if not sent.end:
                    wrong.append(f"nobody asked about {sent.uid}, whose half message was acknowledged")
                elif arrived[sent.uid] != int(sent.end == "commit"):
                    wrong.append(f"{sent.uid} ended with a {sent.end} and is in its topic {arrived[sent.uid]} times")
        return wrong


def _files(
    names: Callable[[str], list[str]], read: Callable[[str], bytes | None], folder: str
) -> Iterator[tuple[int, bytes]]:
    """Yield the number and the bytes of each file of a folder of the store."""
    for name in names(f"{ROOT}/{folder}"):
        if name.isdigit():
            yield int(name), read(f"{ROOT}/{folder}/{name}") or b""


def _other_properties(record: Record, sent: Sent) -> list[str]:
    """What differs from what was sent."""
    if "\0" in record.properties_text:
        return [f"its properties have zeros in them: {record.properties_text!r}"]
    found = record.properties
    wanted = dict(sent.properties)
    if sent.kind == "batch":
        found = {name: value for name, value in found.items() if name not in ADDED}
    if sent.kind == "timer":
        wanted.pop("TIMER_DELIVER_MS", None)
        found.pop("TIMER_DELIVER_MS", None)
    wrong = [f"property {name} is {found.get(name)!r}" for name, value in wanted.items() if found.get(name) != value]
    wrong += [f"it has a property {name}" for name in found if name not in wanted and name not in ADDED]
    return wrong


def _tags_code(record: Record) -> int:
    if record.topic == SCHEDULE:
        return record.stored_ms + LEVELS_MS[record.queue_id]
    return java_hash(record.properties.get("TAGS", ""))
