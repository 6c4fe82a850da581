"""Requests about offsets: commits (14, 15, 43, 308, 314), queue limits (30, 31), times (29, 32), resets (222).

Decision rows: docs/protocol/behaviour.md 5 (ConsumerManageProcessor, AdminBrokerProcessor of 5.5.0).
"""

from __future__ import annotations

from typing import Final

from bolide.broker.consumers.client_resets import ClientResets
from bolide.broker.core.channel import Channel
from bolide.broker.core.names import NO_LITE_TOPICS, group_refusal, is_system_group
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.found import check_each
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import RESETS_AT_MASTER, Refused
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.topics import TopicTable
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import LMQ_PREFIX
from bolide.remoting import codes
from bolide.remoting.bodies.base import MessageQueue, encode_body
from bolide.remoting.bodies.offsets import QueryCorrectionOffsetBody, ResetOffsetBody
from bolide.remoting.command import Command, make_response
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers.decode import decode_header, java_int
from bolide.remoting.headers.offsets import (
    CloneGroupOffsetRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    QueryConsumerOffsetRequestHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from bolide.remoting.request_access import (
    CLONE_OFFSETS,
    COMMIT_OFFSET,
    CORRECT_OFFSETS,
    GET_TOPIC,
    READ_OFFSET,
    SIGNED_GET,
    UPDATE_GROUP_AND_TOPIC,
)
from bolide.remoting.request_routes import DiskReads, Kind, RawRoute, Route
from bolide.store.message_store import MessageStore

LOWER: Final = "lower"
UPPER: Final = "upper"
LONG_MAX: Final = (1 << 63) - 1


class OffsetService(Service):
    """Serves offset requests from the committed table and the store."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        offsets: ConsumerOffsets,
        topics: TopicTable,
        groups: GroupTable,
        clients: Clients,
        resets: ClientResets | None = None,
    ) -> None:
        """With `resets` (useServerSideResetOffset=false) clients reset their offsets; otherwise the broker stores
        pending resets."""
        self._resets = resets
        self._options = options
        self._store = store
        self._offsets = offsets
        self._topics = topics
        self._groups = groups
        self._clients = clients

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        return [
            Route(
                codes.QUERY_CONSUMER_OFFSET,
                QueryConsumerOffsetRequestHeader,
                self.on_query,
                Kind.READ,
                reads=DiskReads.STEPWISE,
                ordinary=frozenset({codes.QUERY_NOT_FOUND}),
                access=READ_OFFSET,
            ),
            RawRoute(
                codes.UPDATE_CONSUMER_OFFSET,
                UpdateConsumerOffsetRequestHeader,
                self.on_update,
                Kind.CHANGE,
                durable=False,
                light=True,
                access=COMMIT_OFFSET,
            ),
            Route(codes.GET_MAX_OFFSET, GetMaxOffsetRequestHeader, self.on_max, Kind.READ, access=GET_TOPIC),
            Route(codes.GET_MIN_OFFSET, GetMinOffsetRequestHeader, self.on_min, Kind.READ, access=GET_TOPIC),
            Route(
                codes.SEARCH_OFFSET_BY_TIMESTAMP,
                SearchOffsetRequestHeader,
                self.on_search,
                Kind.READ,
                reads=DiskReads.STEPWISE,
                access=GET_TOPIC,
            ),
            Route(
                codes.GET_EARLIEST_MSG_STORETIME,
                GetEarliestMsgStoretimeRequestHeader,
                self.on_earliest,
                Kind.READ,
                reads=DiskReads.STEPWISE,
                access=GET_TOPIC,
            ),
            RawRoute(codes.GET_ALL_CONSUMER_OFFSET, None, self.on_all, Kind.READ, access=SIGNED_GET),
            Route(
                codes.CLONE_GROUP_OFFSET,
                CloneGroupOffsetRequestHeader,
                self.on_clone,
                Kind.CHANGE,
                access=CLONE_OFFSETS,
            ),
            Route(
                codes.QUERY_CORRECTION_OFFSET,
                QueryCorrectionOffsetHeader,
                self.on_correction,
                Kind.READ,
                access=CORRECT_OFFSETS,
            ),
            Route(
                codes.INVOKE_BROKER_TO_RESET_OFFSET,
                ResetOffsetRequestHeader,
                self.on_reset,
                Kind.CHANGE,
                at_master=RESETS_AT_MASTER if self._resets is None else None,
                reads=DiskReads.STEPWISE,
                access=UPDATE_GROUP_AND_TOPIC,
            ),
        ]

    def on_query(
        self, channel: Channel, command: Command, header: QueryConsumerOffsetRequestHeader, now: int
    ) -> Outcome:
        offset = self._offsets.query(header.consumer_group, header.topic, header.queue_id)
        if offset >= 0:
            return _offset(command, offset)
        if header.set_zero_if_not_found is False:
            return _not_found(command, "Not found, do not set to zero, maybe this group boot first")
        # A new group on a young topic starts at the first message, whatever it requests (Java's rule).
        young = self._store.min_queue_offset(header.topic, header.queue_id) <= 0
        if young and self._store.in_memory(header.topic, header.queue_id, 0):
            return _offset(command, 0)
        # A consumer without an offset then requests the end of the queue and starts there, so it would skip messages
        # that arrive between its two requests. 4.9 returns 0 for every empty queue. 5.5 never does, and loses such
        # messages.
        group = self._clients.consumer_group(header.consumer_group)
        at_work = group is not None and bool(group.clients)
        if at_work and self._store.max_queue_offset(header.topic, header.queue_id) == 0:
            return _offset(command, 0)
        return _not_found(command, "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def on_update(self, channel: Channel, command: Command, now: int) -> Outcome:
        try:
            header = decode_header(command, UpdateConsumerOffsetRequestHeader)
        except HeaderError:
            return reply(make_response(command, *self._incomplete(command.ext())))
        group, topic = header.consumer_group, header.topic
        refusal = self._unknown(group, topic)
        if refusal is not None:
            return reply(make_response(command, *refusal))
        if is_system_group(group):
            return _own(command, group)
        no_queue = self._no_queue(group, topic, header.queue_id)
        if no_queue is not None:
            return reply(make_response(command, codes.INVALID_PARAMETER, no_queue))
        if self._offsets.has_reset(group, topic, header.queue_id):
            return reply(make_response(command, codes.SUCCESS, "Offset has been previously reset"))
        if not self._offsets.commit(group, topic, header.queue_id, header.commit_offset, now, channel.remote):
            remark = f"the offset cannot be kept: maxConsumerOffsets is {self._options.consumers.max_consumer_offsets}"
            return reply(make_response(command, codes.SYSTEM_ERROR, f"{remark}; delete groups or raise it"))
        return reply(make_response(command, codes.SUCCESS))

    def _no_queue(self, group: str, topic: str, queue_id: int) -> str | None:
        """Return an error message if the queue is not configured and never had messages, otherwise None."""
        if self._options.shape.enable_lmq and group.startswith(LMQ_PREFIX):
            return None  # it has one offset for all queues
        config = self._topics.get(topic)
        count = 0 if config is None else max(config.read_queue_nums, config.write_queue_nums)
        if 0 <= queue_id < count:
            return None
        if 0 <= queue_id < MAX_QUEUES and self._store.max_queue_offset(topic, queue_id) > 0:
            return None  # the topic had more queues before
        if not count:
            return f"topic {topic} does not exist here: create it, or send to it first"
        return f"topic {topic} has no queue {queue_id}: its queues are 0 to {count - 1}"

    def _unknown(self, group: str, topic: str) -> tuple[int, str] | None:
        if self._groups.get(group) is None:
            return codes.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!"
        if self._topics.get(topic) is None:
            return codes.TOPIC_NOT_EXIST, f"Topic {topic} not exist!"
        return None

    def _incomplete(self, ext: dict[str, str]) -> tuple[int, str]:
        """Return the error for an update without required fields. As in Java, a missing topic is reported first."""
        topic = ext.get("topic")
        if topic is None:
            return codes.SYSTEM_ERROR, "the custom field <topic> is null"
        refusal = self._unknown(ext.get("consumerGroup", "null"), topic)
        if refusal is not None:
            return refusal
        lacking = "QueueId" if java_int(ext.get("queueId", ""), 31) is None else "Offset"
        return codes.INVALID_PARAMETER, f"{lacking} is null, topic is {topic}"

    def on_max(self, channel: Channel, command: Command, header: GetMaxOffsetRequestHeader, now: int) -> Outcome:
        return _offset(command, self._store.max_queue_offset(header.topic, header.queue_id))

    def on_min(self, channel: Channel, command: Command, header: GetMinOffsetRequestHeader, now: int) -> Outcome:
        return _offset(command, self._store.min_queue_offset(header.topic, header.queue_id))

    def on_search(self, channel: Channel, command: Command, header: SearchOffsetRequestHeader, now: int) -> Outcome:
        if header.lite_topic:
            return reply(make_response(command, codes.INVALID_PARAMETER, NO_LITE_TOPICS))
        boundary = UPPER if (header.boundary_type or "").lower() == UPPER else LOWER
        found = self._store.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
        return _offset(command, found)

    def on_earliest(
        self, channel: Channel, command: Command, header: GetEarliestMsgStoretimeRequestHeader, now: int
    ) -> Outcome:
        earliest = self._store.earliest_store_time(header.topic, header.queue_id)
        return reply(make_response(command, codes.SUCCESS, ext={"timestamp": str(earliest)}))

    def on_all(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=self._offsets.answer()))

    def on_clone(self, channel: Channel, command: Command, header: CloneGroupOffsetRequestHeader, now: int) -> Outcome:
        if is_system_group(header.dest_group):
            return _own(command, header.dest_group)
        refusal = group_refusal(header.dest_group)
        if refusal is not None:
            raise Refused(codes.INVALID_PARAMETER, refusal)
        topics = [header.topic] if header.topic else self._offsets.topics_of(header.src_group)
        check_each(command, topics)
        connected = None if header.offline else self._clients.consumer_group(header.src_group)
        for topic in topics:
            if connected is not None and connected.subscriptions and topic not in connected.subscriptions:
                continue  # the group is connected and not subscribed to this topic
            if self._topics.get(topic) is not None:
                self._offsets.clone(header.src_group, header.dest_group, topic, now)
        return reply(make_response(command, codes.SUCCESS))

    def on_correction(
        self, channel: Channel, command: Command, header: QueryCorrectionOffsetHeader, now: int
    ) -> Outcome:
        """Return the lowest committed offset of each queue, or Long.MAX where `compareGroup` is behind it."""
        topic = header.topic
        left_out = set((header.filter_groups or "").split(","))
        slowest: dict[int, int] = {}
        for group in self._offsets.groups_of(topic):
            if group not in left_out:
                for queue_id, offset in self._offsets.queues(group, topic).items():
                    if offset >= self._store.min_queue_offset(topic, queue_id):
                        slowest[queue_id] = min(offset, slowest.get(queue_id, offset))
        for queue_id, offset in self._offsets.queues(header.compare_group, topic).items():
            if slowest.get(queue_id, offset) > offset:
                slowest[queue_id] = LONG_MAX
        return reply(make_response(command, codes.SUCCESS, body=encode_body(QueryCorrectionOffsetBody(slowest))))

    def on_reset(self, channel: Channel, command: Command, header: ResetOffsetRequestHeader, now: int) -> Outcome:
        """Server-side reset (5.x): store the new offset until the group's next pull, whose response has code 21."""
        if self._resets is not None:
            return self._resets.tell(command, header)
        topic, group = header.topic, header.group
        config = self._topics.get(topic)
        if config is None:
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, f"Topic {topic} does not exist"))
        if self._groups.get(group) is None:
            remark = f"Group {group} does not exist"
            return reply(make_response(command, codes.SUBSCRIPTION_GROUP_NOT_EXIST, remark))
        if is_system_group(group):
            return _own(command, group)
        queue_id = -1 if header.queue_id is None else header.queue_id
        targets: dict[int, int] = {}
        if queue_id >= 0:
            no_queue = self._no_queue(group, topic, queue_id)
            if no_queue is not None:
                return reply(make_response(command, codes.INVALID_PARAMETER, no_queue))
            targets[queue_id] = self._target(header, queue_id)
        else:
            for each in range(config.read_queue_nums):
                targets[each] = self._by_time(topic, each, header.timestamp)
        if not targets:
            return reply(make_response(command, codes.SYSTEM_ERROR, "No queues to reset."))
        for each, offset in targets.items():
            self._offsets.assign_reset(group, topic, each, offset, now)
        name = self._options.place.broker_name
        body = ResetOffsetBody({MessageQueue(topic, name, each): offset for each, offset in targets.items()})
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def _target(self, header: ResetOffsetRequestHeader, queue_id: int) -> int:
        offset = header.offset
        if offset is None or offset == -1:
            return self._by_time(header.topic, queue_id, header.timestamp)
        low = self._store.min_queue_offset(header.topic, queue_id)
        high = self._store.max_queue_offset(header.topic, queue_id)
        if offset < low or offset > high + 1:
            message = f"Target offset {offset} not in consume queue range [{low}-{high}]"
            raise Refused(codes.SYSTEM_ERROR, message)
        return offset

    def _by_time(self, topic: str, queue_id: int, timestamp: int) -> int:
        if timestamp < 0:
            return self._store.max_queue_offset(topic, queue_id)
        return self._store.offset_by_time(topic, queue_id, timestamp, LOWER)


def _offset(command: Command, offset: int) -> Outcome:
    return reply(make_response(command, codes.SUCCESS, ext={"offset": str(offset)}))


def _own(command: Command, group: str) -> Outcome:
    """Reject a change of the broker's own progress. (Java allows it, and then skips transactions.)"""
    remark = f"the offsets of the system group[{group}] are the broker's own: use a consumer group of yours"
    return reply(make_response(command, codes.NO_PERMISSION, remark))


def _not_found(command: Command, remark: str) -> Outcome:
    return reply(make_response(command, codes.QUERY_NOT_FOUND, remark))
