"""Consumer groups: create, list, delete, members, progress (mqadmin's updateSubGroup,
consumerProgress, consumerConnection, consumerStatus)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

import msgspec

from bolide.admin.calls import AdminCalls, ext_of, queue_from
from bolide.admin.together import each
from bolide.client.instance.options import GROUP
from bolide.client.messages.arguments import check_count
from bolide.client.messages.checked import Allowed, checked_methods
from bolide.client.messages.errors import ResponseError, TopicNotFound
from bolide.client.messages.queue import MessageQueue
from bolide.errors import BolideError, LocalError, PeerError
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import RETRY_PREFIX, is_predefined_group
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_answer, encode_body
from bolide.remoting.bodies.clients import (
    Connection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionData,
)
from bolide.remoting.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from bolide.remoting.bodies.running import ConsumerRunningInfo
from bolide.remoting.bodies.stats import ConsumeStats, ConsumeStatsList, QueryConsumeTimeSpanBody, QueueTimeSpan

RETRIES: Final = Allowed("from 0; -1: none", partial(check_count, least=-1))
RETRY_QUEUES: Final = Allowed("0 to 65536", partial(check_count, least=0, most=MAX_QUEUES))
AT_ONCE: Final = 8
"""Maximum number of groups, or of members of a group, queried at the same time."""
ABSENT_CODES: Final = frozenset(
    {codes.SYSTEM_ERROR, codes.TOPIC_NOT_EXIST, codes.SUBSCRIPTION_GROUP_NOT_EXIST, codes.CONSUMER_NOT_ONLINE}
)
"""Responses of a broker that does not know the group or the member. Other brokers may know it. Any other error means
that the broker may know it and did not respond."""


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """One queue of a group. Messages from `consumer_offset` to `broker_offset` are not consumed yet."""

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    last_timestamp: int

    @property
    def lag(self) -> int:
        """Number of unconsumed messages, or 0 if the offset of the group is beyond the end of the queue."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The progress of a group. `tps` is the current messages per second, over all brokers."""

    group: str
    queues: list[QueueProgress]
    tps: float

    @property
    def lag(self) -> int:
        """Number of unconsumed messages, over all queues."""
        return sum(queue.lag for queue in self.queues)


def _age_of(span: QueueTimeSpan) -> int:
    """Return the age of the first unconsumed message. If a broker has deleted that message, `delay_time` is now + 1,
    and the first unconsumed message is the oldest one."""
    now = span.delay_time - 1
    return now - span.min_time_stamp if now >= span.max_time_stamp > 0 else max(span.delay_time, 0)


def _expression_of(subscribed: SubscriptionData) -> str:
    if (subscribed.expression_type or "TAG") == "TAG":
        return " || ".join(sorted(subscribed.tags_set)) or "*"
    return f"{subscribed.expression_type} {subscribed.sub_string}"


@checked_methods
class GroupCalls(AdminCalls):
    """Calls on consumer groups."""

    async def create_group(
        self,
        group: Annotated[str, GROUP],
        *,
        retry_max_times: Annotated[int | None, RETRIES] = None,
        retry_queues: Annotated[int | None, RETRY_QUEUES] = None,
        consume_enable: bool | None = None,
        broadcast_enable: bool | None = None,
        orderly: bool | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> list[str]:
        """Create or change a group on all masters, in one cluster, or on one broker; return the broker names.

        Omitted settings stay unchanged. A new group has RocketMQ's defaults: 16 redeliveries, one retry queue,
        consuming and broadcasting enabled, not orderly.
        """
        changes = {
            "retry_max_times": retry_max_times,
            "retry_queue_nums": retry_queues,
            "consume_enable": consume_enable,
            "consume_broadcast_enable": broadcast_enable,
            "consume_message_orderly": orderly,
        }
        given = {name: value for name, value in changes.items() if value is not None}
        masters = await self.masters(cluster, broker)
        for address in masters.values():
            before = (await self._groups_at(address)).get(group) or SubscriptionGroupConfig(group_name=group)
            config = msgspec.structs.replace(before, **given)
            await self.ask(address, codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_body(config))
        return sorted(masters)

    async def _groups_at(self, address: str) -> dict[str, SubscriptionGroupConfig]:
        # A request for one group (code 352) would create it.
        wrapper = await self.decoded(SubscriptionGroupWrapper, address, codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        return wrapper.subscription_group_table

    async def delete_group(self, group: str, *, remove_offset: bool = False, cluster: str | None = None) -> list[str]:
        """Delete a group on all masters, or only in `cluster`, optionally with its offsets. Return the broker names."""
        masters = await self.masters(cluster)
        ext = ext_of(groupName=group, cleanOffset=remove_offset, removeOffset=remove_offset)
        for address in masters.values():
            await self.ask(address, codes.DELETE_SUBSCRIPTIONGROUP, ext)
        return sorted(masters)

    async def groups(self, *, cluster: str | None = None) -> dict[str, SubscriptionGroupConfig]:
        """Return all groups except RocketMQ's internal groups, with their settings at the first broker that has
        them."""
        found: dict[str, SubscriptionGroupConfig] = {}
        for address in (await self.masters(cluster)).values():
            for name, config in (await self._groups_at(address)).items():
                if not is_predefined_group(name):
                    found.setdefault(name, config)
        return dict(sorted(found.items()))

    async def _group_readers(self, group: str) -> dict[str, str]:
        """Return the addresses to query about a group: the brokers of its retry topic,
        or all masters without that topic."""
        try:
            return await self.topic_readers(RETRY_PREFIX + group)
        except TopicNotFound:
            return await self.masters()

    async def consumer_progress(self, group: str, topic: str | None = None) -> GroupProgress:
        """Return the progress of a group in every queue, or in the queues of `topic`. Raises `ResponseError` if the
        group is unknown, or if a broker rejects the request."""
        queues: list[QueueProgress] = []
        tps = 0.0
        refusal: ResponseError | None = None
        answered = False
        for address in (await self._group_readers(group)).values():
            try:
                stats = await self.decoded(
                    ConsumeStats, address, codes.GET_CONSUME_STATS, ext_of(consumerGroup=group, topic=topic)
                )
            except ResponseError as error:
                if error.code not in ABSENT_CODES:
                    raise  # the group's queues at this broker would be missing from the result
                refusal = error
                continue
            answered = True
            tps += stats.consume_tps
            queues += [
                QueueProgress(queue_from(queue), place.broker_offset, place.consumer_offset, place.last_timestamp)
                for queue, place in stats.offset_table.items()
            ]
        if not answered and refusal is not None:
            raise refusal
        return GroupProgress(group, sorted(queues, key=lambda item: item.queue), tps)

    async def lag_of_groups(self, *, cluster: str | None = None) -> dict[str, int]:
        """Return the number of unconsumed messages of each group, over all topics and queues.

        Sends one request per master, which then reads all groups. The lag of groups without offsets is 0.
        """
        found: dict[str, int] = {}
        for address in (await self.masters(cluster)).values():
            told = await self.decoded(ConsumeStatsList, address, codes.GET_BROKER_CONSUME_STATS, ext_of(isOrder=False))
            for some in told.consume_stats_list:
                for group, of_topics in some.items():
                    places = [place for stats in of_topics for place in stats.offset_table.values()]
                    lag = sum(place.lag for place in places)
                    found[group] = found.get(group, 0) + lag
        return dict(sorted(found.items()))

    async def lag_times(
        self, group: str, topic: str | None = None, *, progress: GroupProgress | None = None
    ) -> dict[MessageQueue, int]:
        """Return the age in ms of the first message that a group has not consumed, by queue. Omits queues without lag.

        For each topic with lag, sends one request to each of its brokers. Requests the progress of the group first,
        unless the caller passes it as `progress`. Raises `ResponseError` if the group is unknown.
        """
        if progress is None:
            progress = await self.consumer_progress(group, topic)
        lagging = {place.queue for place in progress.queues if place.lag > 0}
        found: dict[MessageQueue, int] = {}
        for name in sorted({queue.topic for queue in lagging}):
            for address in (await self.topic_readers(name)).values():
                ext = ext_of(topic=name, group=group)
                told = await self.decoded(QueryConsumeTimeSpanBody, address, codes.QUERY_CONSUME_TIME_SPAN, ext)
                ages = {queue_from(span.message_queue): _age_of(span) for span in told.consume_time_span_set}
                found |= {queue: age for queue, age in ages.items() if queue in lagging}
        return dict(sorted(found.items()))

    async def lag_ages(self, groups: Iterable[str]) -> dict[str, int | None]:
        """Return the lag of each group in time: the age in ms of its oldest unconsumed message, 0 without lag,
        or None if a broker rejects the query."""

        async def of(group: str) -> int | None:
            try:
                return max((await self.lag_times(group)).values(), default=0)
            except (PeerError, LocalError):  # not the caller's errors
                return None

        return await each(groups, of, AT_ONCE)

    async def consumer_connections(self, group: str) -> ConsumerConnection | None:
        """Return the members of a group with their subscriptions, or None if no member is connected."""
        merged: ConsumerConnection | None = None
        seen: dict[str, Connection] = {}
        for address in (await self._group_readers(group)).values():
            answer = await self.ask(
                address,
                codes.GET_CONSUMER_CONNECTION_LIST,
                ext_of(consumerGroup=group),
                accept=(codes.SUCCESS, codes.CONSUMER_NOT_ONLINE),
            )
            if answer.code == codes.SUCCESS:
                merged = merged or decode_answer(answer.body, ConsumerConnection)
                for connection in decode_answer(answer.body, ConsumerConnection).connection_set:
                    seen.setdefault(connection.client_id, connection)
        if merged is not None:
            merged.connection_set = [seen[client_id] for client_id in sorted(seen)]
        return merged

    async def different_subscriptions(self, group: str) -> dict[str, dict[str, str | None]]:
        """Return the topics that the members of a group subscribe to differently.

        Each topic has the expression of every member by client id, or None for a member that does not subscribe.
        Brokers store one subscription for a group, so such members lose messages. Omits members that do not report
        their state.
        """

        async def of(client_id: str) -> dict[str, str] | None:
            try:
                info = await self.consumer_running_info(group, client_id)
            except BolideError:
                return None
            return {
                subscribed.topic: _expression_of(subscribed)
                for subscribed in info.subscription_set
                if not subscribed.topic.startswith(RETRY_PREFIX)
            }

        connected = await self.consumer_connections(group)
        members = [] if connected is None else [member.client_id for member in connected.connection_set]
        found = {member: told for member, told in (await each(members, of, AT_ONCE)).items() if told is not None}
        topics = sorted({topic for of_member in found.values() for topic in of_member})
        by_topic = {topic: {member: of_member.get(topic) for member, of_member in found.items()} for topic in topics}
        return {topic: members for topic, members in by_topic.items() if len(set(members.values())) > 1}

    async def producer_connections(self, group: str, topic: str) -> list[Connection]:
        """Return the producers of a group that are connected to brokers of a topic. Raises `TopicNotFound`."""
        found: dict[str, Connection] = {}
        for address in (await self.topic_masters(topic)).values():
            answer = await self.ask(
                address,
                codes.GET_PRODUCER_CONNECTION_LIST,
                ext_of(producerGroup=group),
                accept=(codes.SUCCESS, codes.SYSTEM_ERROR),
            )
            if answer.code == codes.SUCCESS:
                for connection in decode_answer(answer.body, ProducerConnection).connection_set:
                    found.setdefault(connection.client_id, connection)
        return [found[client_id] for client_id in sorted(found)]

    async def producers(self, *, cluster: str | None = None, topic: str | None = None) -> dict[str, list[ProducerInfo]]:
        """Return the producers connected to all masters, or only in `cluster`, by group, sorted by client id.

        With `topic`, only its brokers are queried; brokers do not record the topics of a producer. Raises
        `TopicNotFound`.
        """
        found: dict[str, dict[str, ProducerInfo]] = {}
        masters = await self.masters(cluster)
        if topic is not None:
            of_topic = await self.topic_masters(topic)
            masters = {name: address for name, address in masters.items() if name in of_topic}
        for address in masters.values():
            told = await self.decoded(ProducerTableInfo, address, codes.GET_ALL_PRODUCER_INFO)
            for group, producers in told.data.items():
                for producer in producers:
                    found.setdefault(group, {}).setdefault(producer.client_id, producer)
        return {group: [found[group][name] for name in sorted(found[group])] for group in sorted(found)}

    async def consumer_running_info(self, group: str, client_id: str, *, stack: bool = False) -> ConsumerRunningInfo:
        """Return the state of one member, as the member reports it. `stack` adds the stacks of its threads, which
        Java's and Bolide's clients report. Raises `ResponseError` if the member is not connected, or if a broker that
        may know it rejects the request."""
        refusal: ResponseError | None = None
        ext = ext_of(consumerGroup=group, clientId=client_id, jstackEnable=stack)
        for address in (await self._group_readers(group)).values():
            try:
                return await self.decoded(ConsumerRunningInfo, address, codes.GET_CONSUMER_RUNNING_INFO, ext)
            except ResponseError as error:
                if refusal is None or refusal.code in ABSENT_CODES:
                    refusal = error
        raise refusal or ResponseError(f"no broker knows group {group}", codes.SUBSCRIPTION_GROUP_NOT_EXIST)
