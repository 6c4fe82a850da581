"""Statistics of brokers: progress of groups, rates (ConsumeStats.java and related classes)."""

from __future__ import annotations

from msgspec import field

from bolide.remoting.bodies.base import Body, Int64, MessageQueue


class OffsetWrapper(Body):
    """One queue of a group. `last_timestamp` is the store time of the last consumed message in ms."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0

    @property
    def lag(self) -> int:
        """Number of unconsumed messages, or 0 if the offset is beyond the end of the queue: a negative lag in a sum
        would hide the lag of other queues."""
        return max(0, self.broker_offset - self.consumer_offset)


class ConsumeStats(Body):
    """Response to GET_CONSUME_STATS."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """Response to GET_BROKER_CONSUME_STATS: one mapping per group."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str = ""
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class BrokerStatsItem(Body):
    """A counter over one period. `avgpt` is the mean per call."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """Response to VIEW_BROKER_STATS_DATA."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


class QueueTimeSpan(Body):
    """Times of the oldest, newest and last consumed message of a queue in ms. `delay_time` is now minus the last of
    them."""

    message_queue: MessageQueue = field(default_factory=MessageQueue)
    min_time_stamp: Int64 = 0
    max_time_stamp: Int64 = 0
    consume_time_stamp: Int64 = 0
    delay_time: Int64 = 0


class QueryConsumeTimeSpanBody(Body):
    """Response to QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class KVTable(Body):
    """String values by name: response to GET_BROKER_RUNTIME_INFO and GET_KVLIST_BY_NAMESPACE."""

    table: dict[str, str] = field(default_factory=dict)
