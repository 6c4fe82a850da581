"""Sends with nothing special in them, all of one read at once, where the native kernel was built.

`send_kernel` turns frames into records and answers without an object for each of their parts, and stops at the first
send that is not plain. What follows takes the ordinary way (`send.SendService`), which is the reference: the bytes in
the log, in the queues, in the index and in the answers are the same whichever way a send takes. Without the kernel
(no compiler at the install, BOLIDE_IMPL=python) all take the ordinary way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i64_be
from mypy_extensions import i64

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.channel import Channel
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.stats import BrokerStats, count
from bolide.broker.tables.topic_config import MAX_QUEUES, MULTI_TAG
from bolide.broker.tables.topics import TopicTable
from bolide.layout.message_properties import asking_names
from bolide.layout.property_names import TRANSIENT_PREFIX
from bolide.remoting.response_bytes import SendResponses
from bolide.store.append_run import ROW, append_run

if TYPE_CHECKING:
    from bolide.broker.send.send_kernel import SendKernel

LIGHT_BODY: Final = 2048
"""A request weighs 1, and 1 more for so many bytes of its body: a batch takes as long as the messages in it."""


def kernel_type() -> type[SendKernel] | None:
    """The native kernel, None where there is none."""
    try:
        from bolide.broker.send.send_kernel import SendKernel
    except ImportError:
        return None
    return SendKernel


@final
class Taken:
    """What became of the front of a read: up to byte `used` it was `count` sends. `answers` are for when the log is
    confirmed to `end`; what the first of them stored ends at `first_end`."""

    def __init__(self, used: int, count: int, weight: int, answers: bytes, first_end: i64, end: i64) -> None:
        self.used: int = used
        self.count: int = count
        self.weight: int = weight
        self.answers: bytes = answers
        self.first_end: i64 = first_end
        self.end: i64 = end


@final
class PlainSends:
    """Of one broker. `kernel` is made by `made_kernel`."""

    def __init__(self, kernel: SendKernel, writer: LogWriter, topics: TopicTable, stats: BrokerStats) -> None:
        self._kernel: SendKernel = kernel
        self._writer: LogWriter = writer
        self._topics: TopicTable = topics
        self._stats: BrokerStats = stats
        self._found: list[str] = []
        self.open: bool = True
        """False while this broker as a whole takes no messages."""

    def take(self, channel: Channel, data: bytes, at: int, enough: int, now: int) -> Taken | None:
        """Store the plain sends from byte `at` on, until they weigh `enough`; None when the first is not one."""
        store = self._writer.store
        log = store.log
        room = log.room()
        role = self._writer.role
        if room <= 0 or not self.open or not role.may_write or role.short or not store.writable():
            return None
        start = log.end_offset
        topics = self._found = []
        stamp = int(log.store_time(now))
        done = self._kernel.take(data, at, enough, self._find, channel.remote_host, int(start), int(room), stamp)
        if done is None:
            return None
        used, sends, weight, first_size, records, answers, rows, texts = done
        append_run(store, topics, records, rows, texts, now)
        self._stats.put(len(rows) // ROW, len(records))
        self._count(topics, rows)
        return Taken(used, sends, weight, answers, start + first_size, log.end_offset)

    def _find(self, name: bytes) -> tuple[int, dict[int, int]] | None:
        """How many queues a topic has for producers, and the next offset of each; None when it is not plain."""
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
        """Count the messages of each topic, those of a batch together."""
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
    """The kernel of a broker that adds `suffix` to the properties of every message."""
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
