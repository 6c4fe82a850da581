"""The same bytes to two brokers: one where plain sends take the way of the native kernel, one where none does.

Whatever way a send takes, the same bytes leave, and the same bytes are on the disk after a stop. Both are the parts
between a connection and its disk, which is in memory; there is no socket and no loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.consumers.locks import QueueLocks
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.stats import BrokerStats
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.send.send import SendService
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topic_config import MULTI_TAG, TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.layout.message_id import encode_host
from bolide.layout.shape import StoreShape
from bolide.node.loop.executor import Executor, ExecutorLinks
from bolide.node.loop.front import LIGHT_AT_ONCE
from bolide.node.loop.services import Services
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from bolide.remoting.request_routes import NO_CODES
from bolide.store.disk.files import FileFailed
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions
from bolide.testing.files import SimulatedFiles
from proof.fuzz.target import KIB, Broken

NOW: Final = 1_700_000_000_000
ROOT: Final = "/store"
MAX_FRAME: Final = 128 * KIB


class Host:
    """Carries out at once what an executor asks for."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.flushes: list[int] = []
        self.faults: list[str] = []

    def write(self, channel: Channel) -> int:
        """Keep what leaves."""
        frames, channel.frames = channel.frames, []
        self.sent += [bytes(frame) for frame in frames]
        return 0

    def start_flush(self, target: int) -> None:
        """Note it: the sync comes after the turn."""
        self.flushes.append(target)

    def run(self, job: Any, done: Callable[[Any, str], None]) -> None:
        """Run a job of the store."""
        job.run()
        done(job, "")

    def persist(self, names: set[str], then: Callable[[str], None]) -> None:
        """The tables are written."""
        then("")

    def failed(self, what: str, error: BaseException) -> None:
        """Note a fault."""
        self.faults.append(f"{what}: {error!r}")

    def refused(self, channel: Channel, request: object, response: object) -> None:
        """The answer says it."""

    def register(self, topic_names: set[str]) -> None:
        """There is no name server."""

    def another_turn(self) -> None:
        """Turns end when the test says so."""

    def close(self, channel: Channel) -> None:
        """There is no socket."""

    pause_reading = resume_reading = close

    def load(self, extents: list[Any], then: Callable[[int], None], fetched: Any = None) -> None:
        """Everything is in memory."""
        raise AssertionError("a send reads nothing")

    def store_failed(self, error: BaseException) -> None:
        """Note a fault."""
        self.faults.append(repr(error))


class Way:
    """One of the two. `settings` are the broker's."""

    def __init__(self, plain: bool, peer: str = "10.1.2.3", own: str = "127.0.0.1", **settings: Any) -> None:
        self.files = SimulatedFiles()
        self.options = options = BrokerOptions.of(
            **{"max_frame_length": MAX_FRAME, "max_message_size": 40 * KIB, **settings}
        )
        shape = StoreShape(
            commit_log_segment_size=256 * KIB, consume_queue_segment_size=2000, index_slots=50, index_entries=200
        )
        store_options = StoreOptions(
            flush_disk_type=options.store.flush_disk_type, max_message_size=options.store.max_message_size
        )
        self.store = MessageStore(self.files, ROOT, shape, store_options)
        self.store.load(NOW)
        self.effects = Effects()
        self.topics = TopicTable(options, self.effects, NOW)
        for config in (
            TopicConfig("T", 4, 4),
            TopicConfig("U", 2, 1),
            TopicConfig("M", 1, 1, topic_filter_type=MULTI_TAG),
            TopicConfig("%RETRY%g", 1, 1),
            TopicConfig("t" * 127, 70, 70),
        ):
            self.topics.table[config.topic_name] = config
        self.stats = BrokerStats(NOW)
        role = Role.of(options)
        writer = LogWriter(self.store, encode_host(own, 10911), 18, TimerRules(options), self.stats.topic_puts, role)
        groups = GroupTable(options, self.effects, NOW)
        keys = UniqKeys(b"\x7f\x00\x00\x01", 1, 2)
        self.service = SendService(options, writer, self.topics, groups, QueueLocks(), keys, self.stats)
        self.host = Host()
        services = Services([self.service, self.topics, groups])
        services.serve_as(role)
        self.executor = Executor(
            services,
            self.effects,
            self.host,
            self.stats,
            self.store,
            WaitTable(10),
            options,
            ExecutorLinks(sends=self.service if plain else None),
        )
        self.channel = Channel(1, encode_host(peer, 4567), f"{peer}:4567")
        self.frames = FramedConnection(MAX_FRAME)
        self.now = NOW
        self.syncs = True
        """False = the disk stands still."""
        self.closed = False
        self.taken = 0
        """Bytes of the frames that took the kernel's way."""

    def read(self, data: bytes, passes: int = 1) -> None:
        """What comes in with one read, and the end of its turn, `passes` ms after the one before.

        After a frame that cannot be nothing is read: the connection is closed.
        """
        if self.closed:
            return
        self.now += passes
        executor = self.executor
        executor.gate.look(self.now, 0)
        try:
            frames = self.frames.gather(data)
            commands = []
            long, used = self.frames.long, 0
            if long is not None or frames:
                if long is not None and executor.take_long_send(self.channel, *long, self.now) is not None:
                    self.taken += len(long[0]) + len(long[1])
                    self.frames.long = long = None
                while long is None and used < len(frames):
                    taken = executor.take_sends(self.channel, frames, used, LIGHT_AT_ONCE, self.now)
                    if taken is None:
                        break
                    used = taken.used
                self.taken += used
                commands = self.frames.cut(frames, used)
        except FrameError as error:
            commands = error.before
            self.closed = True
        for command in commands:
            executor.handle(self.channel, command, NO_CODES, self.now)
        self.end_turn()

    def end_turn(self) -> None:
        """The end of a turn, and the sync it asks for."""
        self.executor.end_of_turn(self.now)
        while self.host.flushes and self.syncs:
            target = self.host.flushes.pop()
            try:
                self.store.sync_commit_log(target)
            except FileFailed as error:
                self.executor.flush_failed(error)
                return
            self.executor.flushed(target, self.now)

    def facts(self) -> dict[str, Any]:
        """What the two must have in common, while they run."""
        stats = self.stats
        return {
            "answers": b"".join(self.host.sent),
            "parked": self.executor.parked_count,
            "offsets": (self.store.end_offset, self.store.written_offset, self.store.dispatched_offset),
            "last store time": self.store.log.last_store_timestamp,
            "counters": (stats.requests, stats.put_messages, stats.put_bytes, stats.handler_errors),
            "of topics": {name: vars_of(tally) for name, tally in stats.topic_puts.items()},
            "faults": self.host.faults,
        }

    def disk(self) -> dict[str, bytes]:
        """Every file after a clean stop."""
        self.store.close(self.now)
        return dict(self._files(ROOT))

    def _files(self, folder: str) -> list[tuple[str, bytes]]:
        found: list[tuple[str, bytes]] = []
        for name in self.files.list_dir(folder):
            path = f"{folder}/{name}"
            data = self.files.read_file(path)
            found += [(path, data)] if data is not None else self._files(path)
        return found


def vars_of(tally: Any) -> tuple[int, int, int]:
    """A tally as numbers."""
    return tally.messages, tally.size, tally.calls


def compare(reads: list[bytes], **settings: Any) -> int:
    """Give both the same reads; the bytes that took the kernel's way. Raises `Broken` where they differ."""
    ways = Way(True, **settings), Way(False, **settings)
    for data in reads:
        for way in ways:
            way.read(data)
    for name, value in ways[0].facts().items():
        other = ways[1].facts()[name]
        if value != other:
            raise Broken(
                f"{name}: {_apart(value, other)!r:.2000} by the kernel, {_apart(other, value)!r:.2000} without"
            )
    disks = ways[0].disk(), ways[1].disk()
    for path in sorted(set(disks[0]) | set(disks[1])):
        if disks[0].get(path) != disks[1].get(path):
            one, two = disks[0].get(path, b""), disks[1].get(path, b"")
            raise Broken(f"{path}: {_apart(one, two)!r:.2000} by the kernel, {_apart(two, one)!r:.2000} without")
    return ways[0].taken


def _apart(value: Any, other: Any) -> Any:
    """Of bytes what follows where they differ, and a little before it; anything else as it is."""
    if not isinstance(value, bytes):
        return value
    at = next((at for at, (one, two) in enumerate(zip(value, other, strict=False)) if one != two), len(value))
    return at, value[max(at - 100, 0) : at + 200]
