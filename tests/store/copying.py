"""A snapshot of a store on a simulated disk, with traffic between the calls of the copy."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from bolide.node.loop.table_sums import TableSums
from bolide.store.disk.files import Files
from bolide.store.message_store import MessageStore
from bolide.store.offline.verify import verify_store
from bolide.store.snapshot import SnapshotReport, Source, StoreSnapshot
from bolide.testing.files import SimulatedFiles
from tests.store.scenario import ROOT, SHAPE, SYNC, Machine, Sent, message, missing, units_agree

COPY = "/data/copy"
OFFSETS = "config/consumerOffset.json"
SEGMENT = int(SHAPE.commit_log_segment_size)


@dataclass(frozen=True)
class At:
    """A position as a broker reports it."""

    run: int
    cuts: int
    begin: int
    written: int
    synced: int


class Between:
    """The files of a process that copies: `act` runs before each of its calls."""

    def __init__(self, files: Files, act: Callable[[str], None]) -> None:
        self._files = files
        self._act = act
        self._acting = False

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._files, name)

        def call(*args: Any) -> Any:
            if not self._acting:
                self._acting = True
                try:
                    self._act(name)
                finally:
                    self._acting = False
            return method(*args)

        return call


class Broker:
    """A store with a table of committed offsets: of each queue, all readable messages are consumed. The table contains
    the position of the last one as well."""

    def __init__(self, machine: Machine, files: SimulatedFiles | None = None) -> None:
        """`files`: a copy of the machine's disk."""
        self.machine = machine
        self.files = machine.files if files is None else files
        self.files.make_dir(f"{ROOT}/config")
        self.deleted: set[str] = set()
        self.asked = 0
        self.limit = 1.0
        self.before: Callable[[], None] = lambda: None
        """Called before each position is returned."""
        self.between_reads: Callable[[], None] = lambda: None
        self._sums = TableSums(self.files)
        self.save()

    def save(self) -> None:
        store = self.machine.store
        table: dict[str, tuple[int, int]] = {}
        for topic in store.topics_in_queues():
            for queue in store.queue_ids(topic):
                end = int(store.max_queue_offset(topic, queue))
                units = store.units(topic, queue, end - 1, 1)
                table[f"{topic}@{queue}"] = end, units[0][0] if units else -1
        self._sums.write(f"{ROOT}/{OFFSETS}", json.dumps(table).encode())

    def position(self) -> At:
        """What a broker answers, once its tables are on disk."""
        self.asked += 1
        self.before()
        store = self.machine.store
        self.save()
        return At(
            store.maintenance.run_id,
            store.maintenance.sealed.cuts,
            int(store.min_physical_offset()),
            int(store.written_offset),
            int(store.flushed_offset),
        )

    def tables(self) -> TableSums:
        """Called between the read of a table and the read of its checksum."""
        self.between_reads()
        return TableSums(self.files)

    def source(self) -> Source:
        return Source(ROOT, self.position, self.tables, f"{ROOT}/epochFileCheckpoint", self.limit)

    def snapshot(self, act: Callable[[str], None] | None = None, folder: str = COPY, now: int = 0) -> SnapshotReport:
        files: Any = self.files if act is None else Between(self.files, act)
        at = now or self.machine.now
        return StoreSnapshot(files, self.source(), folder, SHAPE, SYNC, at, lambda *_: None).run()


class Traffic:
    """What a broker does while it is copied, at random: sends, ticks, tables, deleted topics, retention."""

    def __init__(self, broker: Broker, seed: int, rate: float) -> None:
        self.broker = broker
        self.random = random.Random(seed)
        self.rate = rate
        self.sent = 0
        self.expiries = 3
        """Log files that may still be deleted: far fewer than there are, or none would be as old as the checkpoint."""

    def __call__(self, name: str) -> None:
        if self.random.random() < self.rate:
            self.step()

    def step(self) -> None:
        broker, machine = self.broker, self.broker.machine
        what = self.random.random()
        if what < 0.55:
            self._send(self.random.choice(["T", "T", "U"]))
        elif what < 0.7:
            machine.tick(self.random.choice([100, 1000, 61_000]))
        elif what < 0.8:
            broker.save()
        elif what < 0.9:
            machine.append()
            machine.write()  # written, and not synced
        elif what < 0.95:
            machine.store.delete_topic("U")
            broker.deleted.add("U")
            if self.random.random() < 0.5:
                for _ in range(3):
                    self._send("U")
        elif self.expiries:
            self.expiries -= 1
            self.expire()

    def _send(self, topic: str) -> None:
        machine, self.sent = self.broker.machine, self.sent + 1
        put = message(10_000 + self.sent, topic)
        machine.waiting.append(Sent(put, machine.store.append(put, machine.now)))
        machine.write()
        machine.flush()

    def expire(self) -> None:
        """Delete the oldest log file, as retention does on a full disk."""
        machine = self.broker.machine
        machine.store.maintenance.retention.configure(replace(SYNC, delete_file_batch_max=1))
        machine.files.use = 0.86
        machine.store.delete_expired(machine.now)
        machine.tick(1000)
        machine.files.use = None


def faults(broker: Broker, acknowledged: list[Sent], report: SnapshotReport) -> list[str]:
    """What is wrong with a complete copy: findings of verify, acknowledged messages that it lacks, progress that is
    ahead of its log."""
    files = broker.files
    verdict = verify_store(files, report.folder, SHAPE)
    found = [f"{each.path} {each.position}: {each.sentence}" for each in verdict.findings] + verdict.notes
    if files.size(f"{report.folder}/abort") >= 0:
        found.append("the copy was not closed")
    table = json.loads(files.read_file(f"{report.folder}/{OFFSETS}") or b"{}")
    store = MessageStore(files, report.folder, SHAPE, SYNC)
    store.load(broker.machine.now)
    expected = [
        sent
        for sent in acknowledged
        if sent.put.topic not in broker.deleted and sent.at.physical_offset >= report.log_begin
    ]
    found += missing(store, expected) + units_agree(store)
    for key, (offset, consumed) in table.items():
        topic, _, queue = key.partition("@")
        if offset > store.max_queue_offset(topic, int(queue)):
            found.append(f"offset {offset} of {key} is ahead of the queue")
        elif (units := store.units(topic, int(queue), offset - 1, 1)) and units[0][0] != consumed:
            found.append(f"offset {offset} of {key} is that of a deleted topic: a group would skip messages")
    store.close(broker.machine.now)
    return found
