"""Simple sends (fast path): all simple sends of one read are processed together by the native kernel.

`send_kernel` converts frames to records and responses without an object per part, and stops at the first send that is
not simple. Later sends take the slow path (`send.SendService`), which is the reference: the bytes in the log, the
queues, the index and the responses are the same on both paths. Without the kernel (no compiler at installation,
BOLIDE_IMPL=python), all sends take the slow path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.channel import Channel
from bolide.broker.core.stats import BrokerStats, count
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.topic_config import MULTI_TAG
from bolide.broker.tables.topics import TopicTable
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.message_properties import asking_names
from bolide.layout.property_names import TRANSIENT_PREFIX
from bolide.remoting.response_bytes import SendResponses
from bolide.store.append_run import ROW, append_run

if TYPE_CHECKING:
    from bolide.broker.send.send_kernel import SendKernel

LIGHT_BODY: Final = 2048
"""Body bytes that add 1 to the weight of a request, which starts at 1. A batch takes as long as its messages."""


def kernel_type() -> type[SendKernel] | None:
    """Return the native kernel, or None if it is not available."""
    try:
        from bolide.broker.send.send_kernel import SendKernel
    except ImportError:
        return None
    return SendKernel


@final
class Taken:
    """Result of the fast path for a read: `count` sends up to byte `used`. `answers` are sent when the log is confirmed
    up to `end`; the records of the first send end at `first_end`."""

    def __init__(self, used: int, count: int, weight: int, answers: bytes, first_end: i64, end: i64) -> None:
        self.used: int = used
        self.count: int = count
        self.weight: int = weight
        self.answers: bytes = answers
        self.first_end: i64 = first_end
        self.end: i64 = end


@final
class PlainSends:
    """Fast path of one broker. `kernel` is created by `made_kernel`."""

    def __init__(self, kernel: SendKernel, writer: LogWriter, topics: TopicTable, stats: BrokerStats) -> None:
        self._kernel: SendKernel = kernel
        self._writer: LogWriter = writer
        self._topics: TopicTable = topics
        self._stats: BrokerStats = stats
        self._found: list[str] = []
        self.open: bool = True
        """Whether this broker accepts messages."""

    def take(self, channel: Channel, data: bytes, at: int, enough: int, now: int) -> Taken | None:
        """Store the simple sends that start at byte `at`, until their weight reaches `enough`. Return None if the
        first is not simple."""
        return self._take(channel, data, at, enough, None, now)

    def take_long(self, channel: Channel, head: bytes, body: bytes, now: int) -> Taken | None:
        """Store a send whose frame is in two parts. Return None if it is not simple."""
        return self._take(channel, head, 0, 1, body, now)

    def _take(self, channel: Channel, data: bytes, at: int, enough: int, body: bytes | None, now: int) -> Taken | None:
        store = self._writer.store
        log = store.log
        room = log.room()
        role = self._writer.role
        if room <= 0 or not self.open or not role.may_write or role.short or not store.writable():
            return None
        start = log.end_offset
        topics = self._found = []
        stamp = int(log.store_time(now))
        host, find = channel.remote_host, self._find
        if body is None:
            done = self._kernel.take(data, at, enough, find, host, int(start), int(room), stamp)
        else:
            done = self._kernel.take_long(data, body, find, host, int(start), int(room), stamp)
        if done is None:
            return None
        used, sends, weight, first_size, records, answers, rows, texts = done
        append_run(store, topics, records, rows, texts, now)
        self._stats.put(len(rows) // ROW, len(records))
        self._count(topics, rows)
        return Taken(used, sends, weight, answers, start + first_size, log.end_offset)

    def _find(self, name: bytes) -> tuple[int, dict[int, int]] | None:
        """Return the number of queues of a topic for producers and the next offset of each, or None if sends to it are
        not simple."""
        topic = self._topics.table.get(name.decode())
        if topic is None or not topic.plain or topic.retry or topic.topic_filter_type == MULTI_TAG:
            return None
        text = topic.topic_name
        if topic.topic_bytes != name or len(name) > 127 or not self._writer.takes(text, 0):
            return None
        self._found.append(text)
        queues = min(max(topic.write_queue_nums, topic.read_queue_nums), MAX_QUEUES)
        return queues, self._writer.store.numbers.known(text)

    def _count(self, topics: list[str], rows: bytes) -> None:
        """Count the messages of each topic. A batch is counted together."""
        puts = self._writer.puts
        at: i64 = 0
        end: i64 = len(rows)
        while at < end:
            topic = topics[int(read_i64_be(rows, at + 40))]
            messages = 0
            size: i64 = 0
            while True:
                messages += 1
                size += read_i64_be(rows, at)
                at += ROW
                if at == end or read_i64_be(rows, at + 48) != 0:
                    break
            count(puts, topic, messages, int(size))


def made_kernel(
    kernel: type[SendKernel], writer: LogWriter, responses: SendResponses, suffix: str, options: BrokerOptions
) -> SendKernel:
    """Return the kernel of a broker that appends `suffix` to the properties of every message."""
    log = writer.store.log
    return kernel(
        responses.pieces(),
        [name.encode() for name in asking_names()],
        TRANSIENT_PREFIX.encode(),
        suffix.encode(),
        writer.store_host,
        (
            options.connections.max_frame_length,
            int(log.max_message_size),
            int(log.max_record_size),
            options.send.max_batch_messages,
        ),
        LIGHT_BODY,
    )
