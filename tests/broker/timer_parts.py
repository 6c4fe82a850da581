"""A store, its door and the timer, with a clock in the hand of the test and a small wheel that rolls often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.core.effects import Effects
from bolide.broker.delay.damaged_delays import DamagedDelays
from bolide.broker.delay.followed_timer import FollowedTimer
from bolide.broker.delay.timers import TimerService
from bolide.broker.options.composed import BrokerOptions
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.names import TIMER_TOPIC
from bolide.layout.record import Record
from bolide.layout.shape import StoreShape
from bolide.layout.timer import wheel_precision
from bolide.store.disk.files import FileFailed, Files
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from bolide.store.timer.timer_files import TimerFiles
from bolide.testing.files import SimulatedFiles
from tests.broker.parts import NOW, STORE, message

ROOT = "/store"
SHAPE = StoreShape(commit_log_segment_size=1 << 17, consume_queue_segment_size=2000, index_slots=50, index_entries=200)
LOG_FILE = 52 * 7 + 16 + 9
"""Seven units a file, and some bytes that none can use."""
ROUND = 600
FOLLOWED = f"{ROOT}/config/followedTimer.json"


class Timer:
    """One run of a broker's timer on a disk; `again` is the next."""

    def __init__(self, files: Files | None = None, now: int = NOW, sync: bool = True, **settings: Any) -> None:
        self.files = files or SimulatedFiles()
        self.now = now
        self.sync = sync
        self.settings = settings
        flush = "SYNC_FLUSH" if sync else "ASYNC_FLUSH"
        self.aways: list[tuple[BrokerMessage, Callable[[str, int], None]]] = []
        """What was to be sent to other sets, and who is told."""
        self.options = BrokerOptions.of(flush_disk_type=flush, **settings)
        self.effects = Effects()
        limits = StoreOptions(flush_disk_type=flush, max_message_size=1 << 16)
        self.store = MessageStore(self.files, ROOT, SHAPE, limits)
        self.store.load(now)
        precision = wheel_precision(self.options.delay.timer_precision_ms)
        self.wheel = TimerFiles(self.files, ROOT, precision, LOG_FILE, ROUND)
        rules = TimerRules(self.options, self.wheel.wheel.count_at)
        self.writer = LogWriter(self.store, STORE, 18, rules)
        self.followed = FollowedTimer(self.effects)
        if (told := self.files.read_file(FOLLOWED)) is not None:
            self.followed.load(told)
        self.damaged = DamagedDelays(self.store, self.writer.role, self.effects)
        self.service = TimerService(
            self.options, rules, self.writer, self.effects, self.wheel, now, self.damaged, self.followed
        )
        self.service.load(now)

    def again(self, files: Files | None = None, now: int | None = None, **settings: Any) -> Timer:
        """The next run on this disk, or on another."""
        at = self.now if now is None else now
        return Timer(files or self.files, at, self.sync, **{**self.settings, **settings})

    def put(self, key: str, topic: str = "T", queue_id: int = 0, **properties: str) -> BrokerMessage:
        """Put one message with this UNIQ_KEY through the door; as the door left it."""
        text = "".join(f"{name}\x01{value}\x02" for name, value in {"UNIQ_KEY": key, **properties}.items())
        made = message(topic, queue_id, key.encode(), text, 5)
        self.writer.put(made, self.now)
        return made

    def send(self, key: str, delay: int, topic: str = "T", **properties: str) -> BrokerMessage:
        """A message to be delivered in so many ms, acknowledged."""
        found = self.put(key, topic, TIMER_DELIVER_MS=str(self.now + delay), **properties)
        self.turn()
        return found

    def turn(self) -> None:
        """What the end of a turn does, with threads that take no time."""
        self.store.write_pending()
        target = self.store.flush_target(self.now)
        if target >= 0:
            self.store.sync_commit_log(target)
            self.store.flushed(target)
        self.store.dispatch(1000, self.now)
        for store_job in self.store.jobs():
            store_job.run()
            self.store.job_done(store_job)
        taken = self.effects.take()
        self.aways += taken.aways
        if self.followed.persist_name in taken.persists:
            self.files.make_dir(f"{ROOT}/config")
            self.files.write_file(FOLLOWED, self.followed.encode())
        for job, done in taken.jobs:
            error = ""
            try:
                job.run()
            except FileFailed as failed:
                error = str(failed)
            done(job, error)
        for extents, then in taken.loads:
            for extent in extents:
                self.files.warm(extent.path, extent.offset, extent.size)
            then(self.now)

    def later(self, milliseconds: int, budget: int = 1000) -> None:
        """Let time pass; the service has every tick it asks for."""
        stop = self.now + milliseconds
        while (due := self.service.due(self.now)) is not None and due <= stop:
            self.now = max(self.now, due)
            self.service.tick(self.now, budget)
            self.store.tick(self.now)
            self.turn()
        self.now = stop
        self.turn()

    def close(self) -> None:
        self.store.close(self.now)

    def records(self, topic: str = "T", queue_id: int = 0) -> list[Record]:
        """Everything in a queue."""
        found = []
        for physical_offset, size, _ in self.store.units(topic, queue_id, 0, 1 << 20):
            record = self.store.record_at(physical_offset, size)
            assert record is not None
            found.append(record)
        return found

    def delivered(self, topic: str = "T") -> list[str]:
        """The keys in a topic, in their order."""
        return [record.body.decode() for record in self.records(topic)]

    def waiting(self) -> list[Record]:
        return self.records(TIMER_TOPIC)
