"""A small store on a simulated disk, driven by hand, and the check that nothing acknowledged is missing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from librt.strings import read_i32_be, read_i64_be

from bolide.layout.broker_message import BrokerMessage
from bolide.layout.shape import StoreShape
from bolide.store.disk.files import FileFailed
from bolide.store.message_store import Appended, MessageStore
from bolide.store.options import StoreOptions
from bolide.store.reading.read_result import FOUND, Wanted
from bolide.testing.files import SimulatedFiles
from proof.kit.small import TINY, shape_of
from tests.layout.records import message_of

ROOT = "/data/store"
SHAPE = shape_of(TINY)
HOST = b"\x7f\x00\x00\x01\x00\x00\x2a\x9f"
START = 1_700_000_000_000
SYNC = StoreOptions(flush_disk_type="SYNC_FLUSH")
ASYNC = StoreOptions(flush_disk_type="ASYNC_FLUSH")
ALL = 1 << 40


def message(number: int, topic: str = "T", queues: int = 3, size: int | None = None) -> BrokerMessage:
    """A message whose body, key and tags follow from its number."""
    body = (b"body %d " % number) * (1 + number % 5) if size is None else bytes(size)
    key = f"K{number}"
    tags = f"tag{number % 3}"
    properties = f"UNIQ_KEY\x01{key}\x02TAGS\x01{tags}\x02".encode()
    return message_of(topic, body, properties, number % queues, born_timestamp=START)


@dataclass
class Sent:
    """A message that was appended, and where to."""

    put: BrokerMessage
    at: Appended


@dataclass
class Machine:
    """One store and the node around it, without threads: jobs and syncs run when told to."""

    files: SimulatedFiles = field(default_factory=SimulatedFiles)
    options: StoreOptions = SYNC
    shape: StoreShape = SHAPE
    now: int = START
    root: str = ROOT
    waiting: list[Sent] = field(default_factory=list)
    """Appended, not yet answered."""
    acknowledged: list[Sent] = field(default_factory=list)
    """Answered with SEND_OK."""
    number: int = 0

    def __post_init__(self) -> None:
        self.files.now_ms = self.now
        self.store = MessageStore(self.files, self.root, self.shape, self.options)
        self.report = self.store.load(self.now)

    def append(self, count: int = 1, topic: str = "T") -> list[Sent]:
        """Append messages to the batch of this turn."""
        sent = []
        for _ in range(count):
            put = message(self.number, topic)
            self.number += 1
            sent.append(Sent(put, self.store.append(put, self.now)))
        self.waiting += sent
        return sent

    def append_or_nothing(self) -> None:
        """Append one message if the store takes it."""
        if self.store.writable():
            self.append()

    def append_batch(self, count: int) -> None:
        """Append messages that must stay together."""
        puts = [message(self.number + index) for index in range(count)]
        self.number += count
        self.waiting += [Sent(put, at) for put, at in zip(puts, self.store.append_batch(puts, self.now), strict=True)]

    def write(self) -> None:
        """End of a turn."""
        self.store.write_pending()

    def flush(self) -> None:
        """What the sync thread does, and the answers that follow."""
        target = self.store.flush_target(self.now)
        if target >= 0:
            self.store.sync_commit_log(target)
            self.store.flushed(target)
        self.dispatch()

    def dispatch(self) -> None:
        """Dispatch what is confirmed and answer who waits for it."""
        self.store.dispatch(ALL, self.now)
        done = self.store.dispatched_offset
        self.acknowledged += [sent for sent in self.waiting if sent.at.end_offset <= done]
        self.waiting = [sent for sent in self.waiting if sent.at.end_offset > done]

    def turn(self, count: int = 1) -> None:
        """Append, write, flush, dispatch, answer."""
        self.append(count)
        self.write()
        self.flush()

    def tick(self, elapsed: int = 1000) -> None:
        """Time passes; whatever is due is done, jobs included."""
        self.now += elapsed
        self.files.now_ms = self.now
        self.store.tick(self.now)
        self.run_jobs()

    def run_jobs(self) -> None:
        """What the pool does."""
        for job in self.store.jobs():
            try:
                job.run()
            except FileFailed as error:
                self.store.job_done(job, str(error))
            else:
                self.store.job_done(job)

    def restart(self) -> None:
        """A clean stop and a start."""
        self.store.close(self.now)
        self._load()

    def crash(self) -> None:
        """The process dies and starts again."""
        self.files.process_crash()
        self._load()

    def power_cut(self, seed: int) -> None:
        """The machine loses power and starts again."""
        self.files.power_cut(seed)
        self._load()

    def _load(self) -> None:
        self.waiting = []
        self.store = MessageStore(self.files, self.root, self.shape, self.options)
        self.report = self.store.load(self.now)


def missing(store: MessageStore, acknowledged: list[Sent], thorough: bool = True) -> list[str]:
    """What is not there of the acknowledged messages: unit, record, by pull, by key.

    Every unit is looked at; the rest, unless `thorough`, for the last messages and for every tenth before them.
    """
    lost: list[str] = []
    units: dict[tuple[str, int], dict[int, int]] = {}
    for number, sent in enumerate(acknowledged):
        put, at = sent.put, sent.at
        name = f"{put.properties.uniq_key} at {at.physical_offset}"
        place = (put.topic, put.queue_id)
        if place not in units:
            first = int(store.min_queue_offset(*place))
            units[place] = {first + n: unit[0] for n, unit in enumerate(store.units(*place, first, ALL))}
        if units[place].get(at.queue_offset) != at.physical_offset:
            lost.append(f"{name} is not at {at.queue_offset} of queue {put.queue_id}")
        elif thorough or number % 10 == 0 or number >= len(acknowledged) - 8:
            lost += _missing_one(store, sent, name)
    return lost


def _missing_one(store: MessageStore, sent: Sent, name: str) -> list[str]:
    put, at = sent.put, sent.at
    record = store.record_at(at.physical_offset)
    if record is None or record.body != put.body or record.queue_offset != at.queue_offset:
        return [name + " is not in the log"]
    result = store.read(
        put.topic, put.queue_id, at.queue_offset, max_count=1, max_bytes=ALL, wanted=Wanted({put.tags_code})
    )
    for _ in range(5):  # a real disk may say at any time that it would have to wait
        for extent in result.cold:
            store.files.warm(extent.path, extent.offset, extent.size)
        if result.cold:
            result = store.read(
                put.topic, put.queue_id, at.queue_offset, max_count=1, max_bytes=ALL, wanted=Wanted({put.tags_code})
            )
    if result.status != FOUND or put.body not in b"".join(result.buffers):
        return [name + " cannot be pulled"]
    if at.physical_offset not in store.index.query(put.topic, put.properties.uniq_key, 64, 0, ALL * 1024):
        return [name + " is not found by its key"]
    return []


def units_agree(store: MessageStore) -> list[str]:
    """Units that do not point to a record with just that queue offset."""
    wrong: list[str] = []
    for topic in store.topics_in_queues():
        for queue_id in store.queue_ids(topic):
            first = int(store.min_queue_offset(topic, queue_id))
            for number, (physical_offset, size, _) in enumerate(store.units(topic, queue_id, first, ALL), first):
                head = store.log.segments.read(physical_offset, 28)
                if (read_i32_be(head, 0), read_i64_be(head, 20)) != (size, number):
                    wrong.append(f"{topic} {queue_id} unit {number} points to {physical_offset}")
    return wrong


def workload(machine: Machine, turns: int, seed: int) -> None:
    """A day in the life of a store: turns of several sizes, the clock, two clean restarts and a crash."""
    choice = random.Random(seed)
    restarts = {turns // 3: machine.restart, turns // 2: machine.crash, turns * 3 // 4: machine.restart}
    for number in range(turns):
        machine.append(choice.randint(1, 4))
        if choice.random() < 0.2:
            machine.append_batch(3)
        machine.write()
        if choice.random() < 0.9:
            machine.flush()
        if choice.random() < 0.5:
            machine.run_jobs()
        if choice.random() < 0.3:
            machine.tick(choice.choice((200, 1000, 61_000)))
        if number in restarts:
            machine.flush()
            restarts[number]()
    machine.flush()
