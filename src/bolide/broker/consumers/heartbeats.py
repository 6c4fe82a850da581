"""Heartbeats and related requests: HEART_BEAT (34), UNREGISTER_CLIENT (35), the clients of a group (38),
CHECK_CLIENT_CONFIG (46), and the notification of group changes (40): docs/protocol/behaviour.md 5 and 6.1 to 6.3."""

from __future__ import annotations

from typing import Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.names import retry_topic
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.service import Routes, Service
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import Refused
from bolide.broker.tables.clients import Client, Clients, ConsumerGroup, cost
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.groups import GroupTable
from bolide.broker.tables.pull_filter import ExpressionRefused, is_tag
from bolide.broker.tables.request_limits import check_body, check_class_filters, check_heartbeat
from bolide.broker.tables.topics import TopicTable
from bolide.layout.permissions import PERM_READ_WRITE
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body, encode_body
from bolide.remoting.bodies.clients import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
)
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.clients import (
    GetConsumerListByGroupRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from bolide.remoting.request_access import CLIENT_CHECK, HEARTBEAT, LEAVE, MEMBERS
from bolide.remoting.request_routes import Kind, RawRoute, Route

SCAN_INTERVAL_MS: Final = 10_000
UNIT_SUBSCRIPTION: Final = 0x2


class HeartbeatService(Service):
    """Updates `Clients`, and notifies the members of a group when it changes."""

    def __init__(
        self,
        options: BrokerOptions,
        effects: Effects,
        clients: Clients,
        topics: TopicTable,
        groups: GroupTable,
        filters: ConsumerFilters,
    ) -> None:
        self._options = options
        self._effects = effects
        self._clients = clients
        self._topics = topics
        self._groups = groups
        self._filters = filters
        self._fingerprints: dict[str, int] = {}
        self._next_scan = 0

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._options = options

    def routes(self) -> Routes:
        return [
            RawRoute(codes.HEART_BEAT, None, self.on_heart_beat, Kind.SESSION, access=HEARTBEAT),
            Route(
                codes.UNREGISTER_CLIENT,
                UnregisterClientRequestHeader,
                self.on_unregister_client,
                Kind.SESSION,
                access=LEAVE,
            ),
            Route(
                codes.GET_CONSUMER_LIST_BY_GROUP,
                GetConsumerListByGroupRequestHeader,
                self.on_consumer_list,
                Kind.READ,
                access=MEMBERS,
            ),
            RawRoute(codes.CHECK_CLIENT_CONFIG, None, self.on_check_client_config, Kind.READ, access=CLIENT_CHECK),
        ]

    def on_heart_beat(self, channel: Channel, command: Command, now: int) -> Outcome:
        check_body(command)
        data = decode_body(command.body, HeartbeatData)
        check_heartbeat(command, data, self._options.filters.max_filter_length)
        client = Client(channel, data.client_id, command.language, command.version, now)
        client.permit = command.permit
        channel.client_id = data.client_id
        channel.language = command.language
        channel.version = command.version
        fingerprint = data.heartbeat_fingerprint
        subscriptions_changed = fingerprint == 0
        for consumer in data.consumer_data_set:
            if fingerprint and self._fingerprints.get(consumer.group_name, fingerprint) != fingerprint:
                subscriptions_changed = True
            self._register_consumer(consumer, client, not (fingerprint and data.without_sub), now)
            # a group that could not be created gets no fingerprint
            if self._groups.get(consumer.group_name) is not None:
                self._fingerprints[consumer.group_name] = fingerprint
        for producer in data.producer_data_set:
            self._register_producer(producer.group_name, client)
        ext = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true" if subscriptions_changed else "false"}
        return reply(make_response(command, codes.SUCCESS, ext=ext))

    def _register_producer(self, group: str, client: Client) -> None:
        groups = self._clients.producer_groups
        if group not in groups and len(groups) >= self._options.tables.max_groups:
            text = f"producer group[{group}] cannot be registered: maxGroups is {self._options.tables.max_groups}"
            raise Refused(codes.SYSTEM_ERROR, f"{text}, which also limits producers; use fewer groups or raise it")
        self._clients.register_producer(group, client)

    def _check_subscriptions(self, data: ConsumerData) -> None:
        group = self._clients.consumer_group(data.group_name)
        most, more = self._options.consumers.max_subscriptions, cost(data.subscription_data_set)
        before = 0 if group is None else group.cost
        if more > before and self._clients.subscribed - before + more > most:
            text = f"the subscriptions of group[{data.group_name}] cannot be kept: maxSubscriptions is {most}"
            raise Refused(codes.SYSTEM_ERROR, f"{text} for all groups; subscribe to fewer topics or raise it")

    def _register_consumer(self, data: ConsumerData, client: Client, with_subscriptions: bool, now: int) -> None:
        config = self._groups.find(data.group_name, now)
        if config is None:
            return
        ordered = any(self._topics.is_order_topic(item.topic) for item in data.subscription_data_set)
        self._topics.find_or_create(
            retry_topic(data.group_name),
            config.retry_queue_nums,
            PERM_READ_WRITE,
            UNIT_SUBSCRIPTION if data.unit_mode else 0,
            ordered,
            now,
        )
        if with_subscriptions:
            self._topics.set_order(retry_topic(data.group_name), ordered, now)
        if with_subscriptions:
            self._check_subscriptions(data)
        told = self._clients.register_consumer(data, client, with_subscriptions)
        self._notify(data.group_name, told)
        if with_subscriptions:
            self._filters.register(data.group_name, data.subscription_data_set, now)

    def on_unregister_client(
        self, channel: Channel, command: Command, header: UnregisterClientRequestHeader, now: int
    ) -> Outcome:
        if header.producer_group:
            self._clients.unregister_producer(header.producer_group, channel)
        if header.consumer_group:
            group = self._clients.consumer_group(header.consumer_group)
            told = self._clients.unregister_consumer(header.consumer_group, channel)
            if group is not None:
                self._left(group, told, now)
        return reply(make_response(command, codes.SUCCESS))

    def on_consumer_list(
        self, channel: Channel, command: Command, header: GetConsumerListByGroupRequestHeader, now: int
    ) -> Outcome:
        group = self._clients.consumer_group(header.consumer_group)
        if group is None or not group.clients:
            remark = "no consumer for this group, " + header.consumer_group
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        body = GetConsumerListByGroupResponseBody(group.client_ids())
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_check_client_config(self, channel: Channel, command: Command, now: int) -> Outcome:
        if not command.body:
            return reply(make_response(command, codes.SUCCESS))  # no filter to check
        body = decode_body(command.body, CheckClientRequestBody)
        subscription = body.subscription_data
        check_class_filters([subscription])
        if subscription.expression_type is None or is_tag(subscription.expression_type):
            return reply(make_response(command, codes.SUCCESS))
        if not self._options.filters.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {subscription.expression_type}"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        try:
            self._filters.filters.of(subscription.expression_type, subscription.sub_string)
        except ExpressionRefused as error:
            return reply(make_response(command, codes.SUBSCRIPTION_PARSE_FAILED, str(error)))
        return reply(make_response(command, codes.SUCCESS))

    def channel_closed(self, channel: Channel, now: int) -> None:
        """Called when a connection closes: remove its clients immediately."""
        before = {group.name: group for group in self._clients.groups_of(channel)}
        for name, told in self._clients.drop(channel).items():
            self._left(before[name], told, now)

    def due(self, now: int) -> int | None:
        return self._next_scan

    def tick(self, now: int, budget: int) -> None:
        """Close channels whose heartbeat has expired. Closing a channel notifies the other members of its groups."""
        self._next_scan = now + SCAN_INTERVAL_MS
        if len(self._fingerprints) > len(self._groups.table):  # some belong to removed groups
            self._fingerprints = {name: each for name, each in self._fingerprints.items() if self._groups.get(name)}
        for channel in self._clients.expired(now):
            self._effects.close(channel)

    def _left(self, group: ConsumerGroup, told: list[Channel], now: int) -> None:
        if not group.clients:
            self._filters.unregister(group.name, now)
        self._notify_group(group, told)

    def _notify(self, name: str, told: list[Channel]) -> None:
        group = self._clients.consumer_group(name)
        if group is not None:
            self._notify_group(group, told)

    def _notify_group(self, group: ConsumerGroup, told: list[Channel]) -> None:
        if group.broadcasting or not told or not self._options.consumers.notify_consumer_ids_changed_enable:
            return
        config = self._groups.get(group.name)
        if config is not None and not config.notify_consumer_ids_changed_enable:
            return
        ext = NotifyConsumerIdsChangedRequestHeader(consumer_group=group.name).to_ext()
        for channel in told:
            notice = make_request(codes.NOTIFY_CONSUMER_IDS_CHANGED, 0, ext, oneway=True)
            self._effects.send(channel, notice)
