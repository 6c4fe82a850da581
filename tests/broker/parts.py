"""A broker's services over a real store in a temporary folder, without sockets, threads or a clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.append.timer_rules import TimerRules
from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.consumers.locks import QueueLocks
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.outcome import Hold, Outcome, Parked, Reply
from bolide.broker.core.role import Role
from bolide.broker.core.stats import BrokerStats
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.pull.pull import PullService
from bolide.broker.pull.subscription_filters import SubscriptionFilters
from bolide.broker.send.send import SendService
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.pull_filter import FilterCache
from bolide.broker.tables.topics import TopicTable
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_id import encode_host
from bolide.layout.message_properties import MessageProperties
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import Record, copy_of, decode_records
from bolide.layout.shape import StoreShape
from bolide.remoting import codes
from bolide.remoting.codec import REMOTING
from bolide.remoting.command import Command, make_request
from bolide.remoting.connection import FramedConnection
from bolide.store.disk.files import Files, RealFiles
from bolide.store.message_store import MessageStore
from bolide.store.options import StoreOptions

NOW = 1_700_000_000_000
PEER = encode_host("10.1.2.3", 4567)
STORE = encode_host("127.0.0.1", 10911)
BODY = 88
"""The byte of a record at which its body starts, with IPv4 hosts."""
CHANNEL = Channel(1, bytes(8), "127.0.0.1:1")


class Parts:
    """Everything SEND and PULL need; `close` releases the store."""

    def __init__(self, folder: Path, files: Files | None = None, **settings: Any) -> None:
        self.options = options = BrokerOptions.of(flush_disk_type="ASYNC_FLUSH", **settings)
        shape = StoreShape(
            commit_log_segment_size=1 << 20,
            index_slots=1000,
            index_entries=4000,
            enable_consume_queue_ext=options.shape.enable_consume_queue_ext,
            enable_calc_filter_bit_map=options.shape.enable_calc_filter_bit_map,
            store_version=options.shape.store_version,
            multi_dispatch=options.shape.enable_lmq and options.shape.enable_multi_dispatch,
        )
        self.effects = Effects()
        self.filters = ConsumerFilters(options, FilterCache(), self.effects, NOW)
        settings_of_store = StoreOptions(flush_disk_type="ASYNC_FLUSH", max_message_size=options.store.max_message_size)
        self.store = MessageStore(files or RealFiles(), str(folder), shape, settings_of_store, self.filters.calc_bitmap)
        self.store.load(NOW)
        self.filters.store_time = self.store.store_time
        self.topics = TopicTable(options, self.effects, NOW)
        self.groups = GroupTable(options, self.effects, NOW)
        self.offsets = ConsumerOffsets(self.effects, options.shape.enable_lmq)
        self.clients = Clients()
        self.locks = QueueLocks()
        self.stats = BrokerStats(NOW)
        self.timer_rules = TimerRules(options)
        self.role = Role.of(options)
        self.writer = LogWriter(self.store, STORE, 18, self.timer_rules, self.stats.topic_puts, self.role)
        keys = UniqKeys(b"\x7f\x00\x00\x01", 1, 2)
        self.send_service = SendService(options, self.writer, self.topics, self.groups, self.locks, keys, self.stats)
        self.pull_service = PullService(
            options,
            self.writer,
            self.topics,
            self.groups,
            self.offsets,
            self.stats,
            SubscriptionFilters(options, self.groups, self.clients, self.filters),
        )
        self.channel = Channel(1, PEER, "10.1.2.3:4567", 10911)

    def close(self) -> None:
        self.store.close(NOW)

    def settle(self) -> None:
        """What the end of a turn does to the store."""
        self.store.write_pending()
        self.store.dispatch(1000, NOW)

    def send(self, command: Command, now: int = NOW) -> Outcome:
        handlers = self.send_service.handlers()
        return handlers[command.code](self.channel, command, now)

    def answer(self, command: Command, now: int = NOW) -> Command:
        """Send and answer as the client sees it."""
        answer = reply_of(self.send(command, now))
        self.settle()
        return answer

    def pull(self, now: int = NOW, **fields: Any) -> Outcome:
        return self.pull_service.on_pull(self.channel, pull_request(**fields), now)

    def pulled(self, now: int = NOW, **fields: Any) -> Command:
        return reply_of(self.pull(now, **fields))

    def damage(self, topic: str, offset: int, queue_id: int = 0, at: int = BODY) -> None:
        """Flip a bit of a stored message: in its body, or in byte `at` of its record."""
        ((place, _, _),) = self.store.units(topic, queue_id, offset, 1)
        byte = self.store.log.segments.read(place + at, 1)[0]
        overwrite(self.store, place + at, bytes([byte ^ 1]))

    def records(self, topic: str, queue_id: int = 0) -> list[Record]:
        """What is stored in a queue, straight from the store."""
        found = self.store.read(topic, queue_id, 0, max_count=32, max_bytes=1 << 20)
        return decode_records(b"".join(found.buffers))


def overwrite(store: MessageStore, offset: int, data: bytes) -> None:
    """Change bytes of the log on disk, and drop what memory has of the log, as a restart does."""
    handle = store.files.open(store.log.segments.path_at(offset))
    store.files.write_at(handle, [data], offset % store.log.segment_size)
    store.files.close(handle)
    store.log.tail.clear()
    store.log.memory_from = store.log.written_offset


def reply_of(outcome: Outcome) -> Command:
    """The answer of an outcome that has one."""
    if isinstance(outcome, Parked):
        outcome = outcome.reply
    assert isinstance(outcome, Reply), outcome
    return FramedConnection().receive(b"".join(REMOTING.encode(outcome.response)))[0]


def held_of(outcome: Outcome) -> Hold:
    assert isinstance(outcome, Hold), outcome
    return outcome


def properties_of(record: Record) -> dict[str, str]:
    return parse_properties_bytes(record.properties)


def message(
    topic: str, queue_id: int = 0, body: bytes = b"", properties: str = "", born_timestamp: int = NOW
) -> BrokerMessage:
    """A message of the broker's own, as the door takes it."""
    return BrokerMessage(topic, topic.encode(), queue_id, body, MessageProperties(properties), born_timestamp, PEER)


def again(record: Record, topic: str, queue_id: int, properties: str) -> BrokerMessage:
    """A record to be stored once more."""
    return copy_of(record, topic, queue_id, MessageProperties(properties))


def send_request(
    topic: str = "T",
    body: bytes = b"hello",
    properties: str = "",
    code: int = codes.SEND_MESSAGE_V2,
    version: int = codes.VERSION_5_5_0,
    **fields: str,
) -> Command:
    ext = {"a": "pg", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "7", "h": "5", "i": properties}
    return make_request(code, 9, {**ext, **fields}, body, version=version)


def pull_request(topic: str = "T", offset: int = 0, sys_flag: int = 4, suspend: int = 0, **fields: Any) -> Command:
    code = fields.pop("code", codes.PULL_MESSAGE)
    ext = {
        "consumerGroup": "g",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(sys_flag),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(suspend),
        "subVersion": "0",
        "subscription": "*",
    }
    ext.update({name: str(value) for name, value in fields.items()})
    return make_request(code, 9, ext)


def text(**properties: str) -> str:
    """Properties as a 5.x client writes them."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
