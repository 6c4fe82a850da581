"""Returns offsets of a topic (202), progress of one group (208) or all groups (317), and progress as time (303).

AdminBrokerProcessor of 5.5.0. All configured queues of a topic are included, even empty ones.
"""

from __future__ import annotations

from collections.abc import Callable

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.operator.topic_stats import TopicStatsService
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topic_config import TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, encode_body
from bolide.remoting.bodies.stats import (
    ConsumeStats,
    ConsumeStatsList,
    OffsetWrapper,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from bolide.remoting.bodies.topics import TopicOffset, TopicStatsTable
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.groups import (
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from bolide.remoting.headers.topics import GetTopicStatsInfoRequestHeader
from bolide.remoting.request_access import GET_CLUSTER, GET_CONSUME_STATS, GET_TOPIC, GET_TOPIC_AND_GROUP
from bolide.remoting.request_routes import DiskReads, Kind, Route
from bolide.store.message_store import MessageStore


class ConsumeStatsService(Service):
    """Computes progress from the store's queues and the committed offsets."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        stats: TopicStatsService,
        address: Callable[[], str],
    ) -> None:
        """`address()` returns the `ip:port` of this broker for clients."""
        self._address = address
        self._broker_name = options.place.broker_name
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._stats = stats

    def routes(self) -> Routes:
        return [
            Route(
                codes.GET_TOPIC_STATS_INFO,
                GetTopicStatsInfoRequestHeader,
                self.on_topic_stats,
                Kind.READ,
                reads=DiskReads.MANY,
                access=GET_TOPIC,
            ),
            Route(
                codes.GET_CONSUME_STATS,
                GetConsumeStatsRequestHeader,
                self.on_consume_stats,
                Kind.READ,
                reads=DiskReads.MANY,
                access=GET_CONSUME_STATS,
            ),
            Route(
                codes.GET_BROKER_CONSUME_STATS,
                GetConsumeStatsInBrokerHeader,
                self.on_all_consume_stats,
                Kind.READ,
                reads=DiskReads.MANY,
                access=GET_CLUSTER,
            ),
            Route(
                codes.QUERY_CONSUME_TIME_SPAN,
                QueryConsumeTimeSpanRequestHeader,
                self.on_time_span,
                Kind.READ,
                reads=DiskReads.MANY,
                access=GET_TOPIC_AND_GROUP,
            ),
        ]

    def on_topic_stats(
        self, channel: Channel, command: Command, header: GetTopicStatsInfoRequestHeader, now: int
    ) -> Outcome:
        topic = header.topic
        config = self._topics.get(topic)
        if config is None:
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, f"topic[{topic}] not exist"))
        table = {}
        for queue_id in range(max(config.write_queue_nums, config.read_queue_nums)):
            low = self._store.min_queue_offset(topic, queue_id)
            high = self._store.max_queue_offset(topic, queue_id)
            last = self._store.store_time_at(topic, queue_id, high - 1) if high > 0 else 0
            table[self._queue(topic, queue_id)] = TopicOffset(low, high, max(last, 0))
        put_tps = self._stats.tps("TOPIC_PUT_NUMS", topic, now)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(TopicStatsTable(table, put_tps))))

    def on_consume_stats(
        self, channel: Channel, command: Command, header: GetConsumeStatsRequestHeader, now: int
    ) -> Outcome:
        group = header.consumer_group
        if header.topic_list:
            topics = [topic for topic in header.topic_list.split(";") if topic]
        elif header.topic:
            topics = [header.topic]
        else:
            topics = self._offsets.topics_of(group)
        if not header.topic_list:
            topics = [topic for topic in topics if self._reads(group, topic)]
        stats = ConsumeStats()
        for topic in topics:
            config = self._topics.get(topic)
            if config is not None:
                self._progress(group, config, config.read_queue_nums, stats, now)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(stats)))

    def on_all_consume_stats(
        self, channel: Channel, command: Command, header: GetConsumeStatsInBrokerHeader, now: int
    ) -> Outcome:
        groups = []
        behind = on_the_way = 0
        for group in self._groups.table:
            found = []
            for topic in self._offsets.topics_of(group):
                config = self._topics.get(topic)
                if config is None or (header.is_order and not config.order):
                    continue
                if not self._reads(group, topic):
                    continue
                stats = ConsumeStats()
                self._progress(group, config, config.write_queue_nums, stats, now)
                for each in stats.offset_table.values():
                    behind += each.broker_offset - each.consumer_offset
                    on_the_way += each.pull_offset - each.consumer_offset
                found.append(stats)
            groups.append({group: found})
        body = ConsumeStatsList(groups, self._address(), behind, on_the_way)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_time_span(
        self, channel: Channel, command: Command, header: QueryConsumeTimeSpanRequestHeader, now: int
    ) -> Outcome:
        topic = header.topic
        config = self._topics.get(topic)
        if config is None:
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, f"topic[{topic}] not exist"))
        spans = []
        for queue_id in range(config.write_queue_nums):
            high = self._store.max_queue_offset(topic, queue_id)
            earliest = self._store.earliest_store_time(topic, queue_id)
            consumed = self._offsets.query(header.group, topic, queue_id)
            at = self._store.store_time_at(topic, queue_id, consumed - 1) if consumed > 0 else earliest
            span = QueueTimeSpan(self._queue(topic, queue_id), earliest, 0, at)
            span.max_time_stamp = self._store.store_time_at(topic, queue_id, high - 1)
            if consumed < high:
                span.delay_time = now - self._store.store_time_at(topic, queue_id, max(consumed, 0))
            spans.append(span)
        return reply(make_response(command, codes.SUCCESS, body=encode_body(QueryConsumeTimeSpanBody(spans))))

    def _reads(self, group: str, topic: str) -> bool:
        """Return False if the group is connected and not subscribed to this topic."""
        connected = self._clients.consumer_group(group)
        return connected is None or not connected.subscriptions or topic in connected.subscriptions

    def _progress(self, group: str, config: TopicConfig, queues: int, stats: ConsumeStats, now: int) -> None:
        topic = config.topic_name
        stats.consume_tps += self._stats.tps("GROUP_GET_NUMS", f"{topic}@{group}", now)
        for queue_id in range(queues):
            consumed = max(self._offsets.query(group, topic, queue_id), 0)
            last = self._store.store_time_at(topic, queue_id, consumed - 1) if consumed > 0 else 0
            stats.offset_table[self._queue(topic, queue_id)] = OffsetWrapper(
                self._store.max_queue_offset(topic, queue_id),
                consumed,
                max(consumed, self._offsets.pulled(group, topic, queue_id)),
                max(last, 0),
            )

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._broker_name, queue_id)
