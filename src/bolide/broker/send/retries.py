"""CONSUMER_SEND_MSG_BACK (36): returns messages that a consumer failed to process to the retry topic or dead letter
queue.

The client does not resend the message: the broker copies the stored record with a delay level to `%RETRY%group`, or
after too many attempts to `%DLQ%group` (docs/protocol/behaviour.md 3, AbstractSendMessageProcessor).
"""

from __future__ import annotations

from typing import Final

from bolide.broker.append.log_writer import LogWriter
from bolide.broker.core.channel import Channel
from bolide.broker.core.names import dlq_topic, retry_topic
from bolide.broker.core.outcome import Outcome, Parked, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats, count
from bolide.broker.found import check_found, topics_of
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import RETRIES_AT_MASTER
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topics import TopicTable
from bolide.layout.message_id import offset_message_id
from bolide.layout.message_properties import stored_properties
from bolide.layout.permissions import PERM_READ_WRITE, PERM_WRITE
from bolide.layout.properties import property_value
from bolide.layout.property_names import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, WAIT
from bolide.layout.record import Record, copy_of
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.retries import ConsumerSendMsgBackRequestHeader
from bolide.remoting.request_access import SEND_BACK
from bolide.remoting.request_routes import DiskReads, Kind, Route
from bolide.store.message_store import MessageStore

FIRST_RETRY_LEVEL: Final = 3
"""Level of the first retry: 10 s with the default table; each further attempt waits one level longer."""
DLQ_QUEUE_NUMS: Final = 1
HEADER_LIMIT_SINCE: Final = 121
"""Clients since V3_4_9 may set the limit of attempts in the request."""
UNIT_SUBSCRIPTION: Final = 0x2


class RetryService(Service):
    """Serves messages that are returned for a retry."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        writer: LogWriter,
        topics: TopicTable,
        groups: GroupTable,
        stats: BrokerStats,
    ) -> None:
        self._options = options
        self._store = store
        self._writer = writer
        self._topics = topics
        self._groups = groups
        self._stats = stats
        self._turn = 0

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        return [
            Route(
                codes.CONSUMER_SEND_MSG_BACK,
                ConsumerSendMsgBackRequestHeader,
                self.on_send_back,
                Kind.SEND,
                at_master=RETRIES_AT_MASTER,
                reads=DiskReads.STEPWISE,
                access=SEND_BACK,
            ),
        ]

    def on_send_back(
        self, channel: Channel, command: Command, header: ConsumerSendMsgBackRequestHeader, now: int
    ) -> Outcome:
        config = self._groups.find(header.group, now)
        if config is None:
            remark = f"subscription group not exist, {header.group}"
            return reply(make_response(command, codes.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
        if self._options.tables.broker_permission & PERM_WRITE == 0:
            remark = f"the broker[{self._options.place.spoken_name}] sending message is forbidden"
            return reply(make_response(command, codes.NO_PERMISSION, remark))
        if config.retry_queue_nums <= 0:
            return reply(make_response(command, codes.SUCCESS))
        perm = PERM_READ_WRITE
        sys_flag = UNIT_SUBSCRIPTION if header.unit_mode else 0
        name = retry_topic(header.group)
        record = self._store.intact_record(header.offset)  # first, because a cold record restarts the handler
        if record is not None:
            check_found(command, topics_of(record))
        topic = self._topics.find_or_create(name, config.retry_queue_nums, perm, sys_flag, False, now)
        if not topic.writable:
            remark = f"the topic[{name}] sending message is forbidden"
            return reply(make_response(command, codes.NO_PERMISSION, remark))
        if record is None:
            remark = f"look message by offset failed, {header.offset}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        limit = config.retry_max_times
        if command.version >= HEADER_LIMIT_SINCE and header.max_reconsume_times is not None:
            limit = header.max_reconsume_times
        if record.reconsume_times >= limit or header.delay_level < 0:
            topic = self._topics.find_or_create(dlq_topic(header.group), DLQ_QUEUE_NUMS, perm, 0, False, now)
            level = 0
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + record.reconsume_times
        self._groups.keep(header.group)
        self._turn += 1
        queue_id = 0 if level == 0 else self._turn % config.retry_queue_nums
        end = self._copy(record, topic.topic_name, queue_id, level, now)
        origin = property_value(record.properties, RETRY_TOPIC) or record.topic
        count(self._stats.send_backs, f"{origin}@{header.group}", 1, 0)
        return Parked(reply(make_response(command, codes.SUCCESS)), end)

    def _copy(self, record: Record, topic: str, queue_id: int, level: int, now: int) -> int:
        """Store the record again in another topic. Return the physical end of the copy."""
        properties = stored_properties(record.properties)
        if properties.get(RETRY_TOPIC) is None:
            properties.set(RETRY_TOPIC, record.topic)
        properties.set(WAIT, "false")
        properties.set(DELAY, str(level))
        if not (properties.get(ORIGIN_MESSAGE_ID) or "").strip():
            properties.set(ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.physical_offset))
        message = copy_of(record, topic, queue_id, properties)
        message.reconsume_times += 1
        message.delays = True
        return self._writer.put(message, now).end_offset
