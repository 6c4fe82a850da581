"""SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320): checks in RocketMQ's order, then the append path.

From SendMessageProcessor and AbstractSendMessageProcessor (docs/protocol/behaviour.md 2, 2.1, 2.2). The common case, a
simple message to a known topic, runs straight through `_send`. Each rarer case is a separate function.
"""

from __future__ import annotations

from typing import Final, Protocol, final

from bolide.broker.append.light_queues import LightQueueGate
from bolide.broker.append.log_writer import LogWriter, delay_level, refuse_zeros
from bolide.broker.append.send_rewrite import clean, make_half, priority_queue
from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.core.channel import Channel
from bolide.broker.core.names import NO_SEND_TOPICS, topic_refusal
from bolide.broker.core.outcome import Outcome, Parked, Reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import SENDS_AT_MASTER, Refused, illegal
from bolide.broker.send.plain_sends import PlainSends, kernel_type, made_kernel
from bolide.broker.send.send_batch import BatchSend
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topic_config import MULTI_TAG, TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.dispatch.multi import is_lmq
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX
from bolide.layout.permissions import PERM_READ_WRITE, PERM_WRITE
from bolide.layout.properties import parse_properties
from bolide.layout.property_names import DELAY, REAL_TOPIC
from bolide.layout.sysflag import INNER_BATCH, MULTI_TAGS, TRANSACTION_MASK
from bolide.remoting.codes import (
    INVALID_PARAMETER,
    NO_PERMISSION,
    SEND_BATCH_MESSAGE,
    SEND_MESSAGE,
    SEND_MESSAGE_V2,
    SUBSCRIPTION_GROUP_NOT_EXIST,
    SYSTEM_BUSY,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
    VERSION_3_4_9,
)
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.send import SendHeader, SendMessageRequestHeader, SendMessageRequestHeaderV2
from bolide.remoting.recall_handle import encode_recall_handle
from bolide.remoting.request_access import PUBLISH, PUBLISH_BATCH, PUBLISH_V1
from bolide.remoting.request_routes import Kind, RawRoute
from bolide.remoting.response_bytes import SendResponse, SendResponses

_HALF_BYTES: Final = HALF_TOPIC.encode()


class OrderlyGroups(Protocol):
    """Reports which groups consume in order: the table of queue locks."""

    def any_locked(self, group: str, now: int) -> bool:
        """Return whether the group holds an unexpired queue lock."""


class OpenTransactions(Protocol):
    """Pending half messages."""

    def no_room(self) -> str:
        """Return the reason why half messages are rejected now, or "" if they are accepted."""


@final
class SendService(Service):
    """Stores messages of producers."""

    def __init__(
        self,
        options: BrokerOptions,
        writer: LogWriter,
        topics: TopicTable,
        groups: GroupTable,
        locks: OrderlyGroups,
        uniq_keys: UniqKeys,
        stats: BrokerStats,
        transactions: OpenTransactions | None = None,
    ) -> None:
        self._writer: LogWriter = writer
        self._topics: TopicTable = topics
        self._groups: GroupTable = groups
        self._locks: OrderlyGroups = locks
        self._responses: SendResponses = SendResponses(options.registration.region_id, options.tables.trace_on)
        self._uniq_keys: UniqKeys = uniq_keys
        self._stats: BrokerStats = stats
        self._gate: LightQueueGate = LightQueueGate(options, writer.store)
        self._batches: BatchSend = BatchSend(
            writer, self._gate, self._responses, stats, options.send.max_batch_messages
        )
        self._options: BrokerOptions = options
        self._accept_from: int = options.send.start_accept_send_request_time_stamp
        self._writable: bool = options.tables.broker_permission & PERM_WRITE != 0
        self._transactions: OpenTransactions | None = None if options.send.reject_transaction_message else transactions
        trace, cluster = "true" if options.tables.trace_on else "false", options.place.broker_cluster_name
        region = options.registration.region_id
        self._with_no: dict[str, str] = {"MSG_REGION": region, "TRACE_ON": trace}
        self._suffix: str = f"MSG_REGION\x01{region}\x02TRACE_ON\x01{trace}\x02CLUSTER\x01{cluster}\x02"
        self._suffix_pairs: dict[str, str] = parse_properties(self._suffix)
        self._broker: str = options.place.broker_name
        self._spoken_name: str = options.place.spoken_name
        self._spread: int = 0
        self._plain: PlainSends | None = None

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._accept_from = options.send.start_accept_send_request_time_stamp
        self._writable = options.tables.broker_permission & PERM_WRITE != 0
        self._gate.configure(options)
        if self._plain is not None:
            self._plain.open = self._open()

    def plain_sends(self) -> PlainSends | None:
        """Return the fast path for simple sends of `on_send` and `on_send_v2`, or None without the kernel."""
        kernel = kernel_type()
        if kernel is None:
            return None
        made = made_kernel(kernel, self._writer, self._responses, self._suffix, self._options)
        self._plain = PlainSends(made, self._writer, self._topics, self._stats)
        self._plain.open = self._open()
        return self._plain

    def _open(self) -> bool:
        """Return whether this broker accepts messages."""
        return self._writable and self._accept_from <= 0

    def routes(self) -> Routes:
        return [
            RawRoute(code, header, handler, Kind.SEND, at_master=SENDS_AT_MASTER, light=True, access=access)
            for code, header, handler, access in (
                (SEND_MESSAGE, SendMessageRequestHeader, self.on_send, PUBLISH_V1),
                (SEND_MESSAGE_V2, SendMessageRequestHeaderV2, self.on_send_v2, PUBLISH),
                (SEND_BATCH_MESSAGE, SendMessageRequestHeaderV2, self.on_send_v2, PUBLISH_BATCH),
            )
        ]

    def on_send(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Serve request 10, which has full field names."""
        try:
            return self._send(channel, command, decode_header(command, SendMessageRequestHeader), now)
        except Refused as refused:
            return self._refuse(command, refused.response_code, str(refused))

    def on_send_v2(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Serve requests 310 and 320, which have one-letter field names. A field, not the code, marks a batch."""
        try:
            return self._send(channel, command, decode_header(command, SendMessageRequestHeaderV2), now)
        except Refused as refused:
            return self._refuse(command, refused.response_code, str(refused))

    def _send(self, channel: Channel, command: Command, header: SendHeader, now: int) -> Outcome:
        if not self._open():
            refused = self._closed(command, header, now)
            if refused is not None:
                return refused
        name = header.topic
        topic = self._topics.table.get(name)
        if topic is None or not topic.plain:
            if name in NO_SEND_TOPICS:
                return self._refuse(command, NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
            why = topic_refusal(name)
            if why is not None:
                return self._refuse(command, INVALID_PARAMETER, why)
            if topic is None:
                topic = self._create(header, now)
                if topic is None:
                    return self._refuse(command, TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
            if not topic.saved:
                self._topics.wait_for_file()
        queue_id: int = header.queue_id
        if queue_id >= topic.write_queue_nums and queue_id >= topic.read_queue_nums:
            return self._refuse(
                command,
                INVALID_PARAMETER,
                f"request queueId[{queue_id}] is illegal, topic {name} has {topic.write_queue_nums} write queues",
            )
        if queue_id < 0:
            if topic.write_queue_nums <= 0:
                return self._refuse(command, SYSTEM_ERROR, f"topic[{name}] has no write queue")
            self._spread += 1
            queue_id = self._spread % topic.write_queue_nums
        if header.batch is True:
            if topic.retry:
                return self._refuse(command, 13, f"batch request does not support retry group {name}")
            return self._batches.send(channel, command, header, topic, queue_id, now)
        return self._store(channel, command, header, topic, queue_id, now)

    def _store(
        self, channel: Channel, command: Command, header: SendHeader, topic: TopicConfig, queue_id: int, now: int
    ) -> Outcome:
        properties = MessageProperties(header.properties or "")
        properties.scan()
        refuse_zeros(properties.text, False)
        level = delay_level(properties)
        if properties.rewrite:
            priority = priority_queue(properties, topic.write_queue_nums)
            if priority >= 0:
                queue_id = priority
            clean(properties)
        if not properties.uniq_key:
            properties.add_uniq_key(self._uniq_keys.next(now))
        properties.append(self._suffix, self._suffix_pairs)
        if properties.multi:
            self._gate.check(command, topic.topic_name, properties.multi)
        message = BrokerMessage(
            topic.topic_name,
            topic.topic_bytes,
            queue_id,
            command.body,
            properties,
            header.born_timestamp,
            channel.remote_host,
        )
        message.flag = header.flag
        message.sys_flag = flag_of(header.sys_flag, topic, properties)
        message.reconsume_times = header.reconsume_times or 0
        if topic.retry:
            if not self._retries(message, command, header, topic, now):
                remark = f"subscription group not exist, {topic.topic_name[len(RETRY_PREFIX) :]}"
                return self._refuse(command, SUBSCRIPTION_GROUP_NOT_EXIST, remark)
            level = delay_level(properties)
        if properties.transactional and not (message.reconsume_times > 0 and level > 0):
            refused = self._half(message, command)
            if refused is not None:
                return refused
        appended = self._writer.put(message, now)
        self._stats.put(1, appended.size)
        response = SendResponse(
            self._responses,
            command,
            self._writer.message_id(appended.physical_offset),
            queue_id=queue_id,
            queue_offset=appended.queue_offset,
            transaction_id=properties.uniq_key,
            recall_handle=self._recall_handle(message) if message.waits_until else "",
        )
        return Parked(Reply(response), appended.end_offset, properties.wait)

    def _half(self, message: BrokerMessage, command: Command) -> Reply | None:
        """Convert this message to a half message, or return an error. Its delay applies when it commits."""
        if self._transactions is None:
            remark = f"the broker[{self._spoken_name}] sending transaction message is forbidden"
            return self._refuse(command, NO_PERMISSION, remark)
        full: str = self._transactions.no_room()
        if full:
            return self._refuse(command, SYSTEM_BUSY, full)
        make_half(message.properties, message.topic, message.queue_id)
        message.move_to(HALF_TOPIC, _HALF_BYTES, 0)
        message.sys_flag &= ~TRANSACTION_MASK
        message.delays = False
        return None

    def _recall_handle(self, message: BrokerMessage) -> str:
        """Return the handle with which the producer may recall a delayed message. Its time is one more than the slot,
        because Java rounds it down."""
        topic = message.properties.get(REAL_TOPIC) or ""
        if topic.startswith(RETRY_PREFIX):
            return ""
        return encode_recall_handle(topic, self._broker, message.waits_until + 1, message.properties.uniq_key)

    def _refuse(self, command: Command, code: int, remark: str) -> Reply:
        """Return an error response with the two fields that producers also read in it."""
        return Reply(make_response(command, code, remark, self._with_no))

    def _closed(self, command: Command, header: SendHeader, now: int) -> Outcome | None:
        """Return the error response if this broker accepts no messages, else None."""
        if self._writer.store.times.wall(now) < self._accept_from:
            return self._refuse(command, SYSTEM_ERROR, f"broker unable to service, until {self._accept_from} (ms)")
        if not self._writable and self._topics.is_order_topic(header.topic):
            return self._refuse(command, NO_PERMISSION, f"the broker[{self._spoken_name}] sending message is forbidden")
        return None

    def _create(self, header: SendHeader, now: int) -> TopicConfig | None:
        # Unit mode (TopicSysFlag): bit 0 for normal topics, bit 1 for retry topics of a unit.
        unit_flag = 0
        if header.unit_mode is True:
            unit_flag = 2 if header.topic.startswith(RETRY_PREFIX) else 1
        if is_lmq(header.topic):
            self._gate.room([header.topic])
        return self._topics.create_on_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, unit_flag, now
        )

    def _retries(
        self, message: BrokerMessage, command: Command, header: SendHeader, topic: TopicConfig, now: int
    ) -> bool:
        """Redirect a message for %RETRY%group to %DLQ%group after too many attempts or if the group consumes in order.

        Return False if the group is unknown and may not be created.
        """
        group_name = topic.topic_name[len(RETRY_PREFIX) :]
        group = self._groups.find(group_name, now)
        if group is None:
            return False
        self._groups.keep(group_name)
        most = group.retry_max_times
        if command.version >= VERSION_3_4_9 and header.max_reconsume_times is not None:
            most = header.max_reconsume_times
        if message.reconsume_times > most or self._locks.any_locked(group_name, now):
            dead = self._topics.find_or_create(DLQ_PREFIX + group_name, 1, PERM_READ_WRITE, 0, False, now)
            message.move_to(dead.topic_name, dead.topic_bytes, 0)
            message.properties.set(DELAY, "-1")  # without its level (5.x)
        return True


def flag_of(sys_flag: int, topic: TopicConfig, properties: MessageProperties) -> int:
    """Return the sys flag to store. Raises `Refused` 13 for an inner batch, which requires Java's batch queues."""
    if properties.inner_batch or sys_flag & INNER_BATCH:
        raise illegal(f"topic[{topic.topic_name}] has no batch queues: send a batch (320)")
    return sys_flag | MULTI_TAGS if topic.topic_filter_type == MULTI_TAG else sys_flag
