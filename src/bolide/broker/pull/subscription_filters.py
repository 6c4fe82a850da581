"""The filter of a request for messages: from an expression in its header, or from the subscription of its group.

Part of RocketMQ's PullMessageProcessor (docs/protocol/behaviour.md 1).
"""

from __future__ import annotations

from typing import Final, final

from bolide.broker.core.outcome import Reply
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.pull.refusals import BY_BROADCAST, BY_SUBSCRIPTION, forbid, no_expressions, refuse
from bolide.broker.tables.clients import Clients
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.groups import GroupTable, SubscriptionGroupConfig
from bolide.broker.tables.pull_filter import ExpressionRefused, FilterCache, PullFilter, is_tag
from bolide.broker.tables.request_limits import no_class_filters
from bolide.layout.names import RETRY_PREFIX
from bolide.remoting.codes import (
    FILTER_DATA_NOT_EXIST,
    FILTER_DATA_NOT_LATEST,
    SUBSCRIPTION_NOT_EXIST,
    SUBSCRIPTION_NOT_LATEST,
    SUBSCRIPTION_PARSE_FAILED,
    SYSTEM_ERROR,
)
from bolide.remoting.command import Command
from bolide.remoting.headers.pull import PullMessageRequestHeader

FLAG_SUBSCRIPTION: Final = 0x4
FLAG_CLASS_FILTER: Final = 0x8


@final
class SubscriptionFilters:
    """Chooses the filters of one broker's consumers."""

    def __init__(
        self, options: BrokerOptions, groups: GroupTable, clients: Clients, consumer_filters: ConsumerFilters
    ) -> None:
        self._groups: GroupTable = groups
        self._clients: Clients = clients
        self._consumer_filters: ConsumerFilters = consumer_filters
        self._filters: FilterCache = consumer_filters.filters
        self._property_filter: bool = options.filters.enable_property_filter
        self._filter_retries: bool = options.filters.filter_support_retry

    def choose(
        self, command: Command, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
    ) -> PullFilter | Reply:
        """Return the filter of this pull, or an error response if there is none."""
        if header.sys_flag & FLAG_CLASS_FILTER:
            return refuse(command, SYSTEM_ERROR, no_class_filters(header.topic))
        if header.sys_flag & FLAG_SUBSCRIPTION:
            return self.of_expression(
                command, header.topic, header.consumer_group, header.expression_type, header.subscription
            )
        chosen = self._of_group(command, header, group)
        if isinstance(chosen, PullFilter) and chosen.expression and not self._property_filter:
            return no_expressions(command, chosen.expression_type)
        return chosen

    def of_expression(
        self, command: Command, topic: str, group: str, kind: str | None, text: str | None
    ) -> PullFilter | Reply:
        """Return the filter of this expression, or an error response. `kind`: expression type; None for tags. An
        empty `text` selects all messages."""
        try:
            if kind == "" and not text:
                raise ExpressionRefused("there is no expression for the empty expression type")
            if kind is None or is_tag(kind):
                return self._filters.of_tags(text or "*")
            if not self._property_filter:
                return no_expressions(command, kind)
            return self._for_topic(topic, group, self._filters.of(kind, text or "*"))
        except ExpressionRefused as error:
            return refuse(command, SUBSCRIPTION_PARSE_FAILED, f"parse the consumer's subscription failed: {error}")

    def _of_group(
        self, command: Command, header: PullMessageRequestHeader, group: SubscriptionGroupConfig
    ) -> PullFilter | Reply:
        connected = self._clients.consumer_group(header.consumer_group)
        if connected is None:
            return refuse(command, SUBSCRIPTION_NOT_EXIST, "the consumer's group info not exist")
        if not group.consume_broadcast_enable and connected.broadcasting:
            remark = f"the consumer group[{header.consumer_group}] can not consume by broadcast way"
            return forbid(command, BY_BROADCAST, remark)
        if not self._groups.may_read(header.consumer_group, header.topic):
            remark = f"the consumer group[{header.consumer_group}] is forbidden for topic[{header.topic}]"
            return forbid(command, BY_SUBSCRIPTION, remark)
        subscription = connected.subscriptions.get(header.topic)
        if subscription is None:
            return refuse(command, SUBSCRIPTION_NOT_EXIST, "the consumer's subscription not exist")
        if header.sub_version > subscription.sub_version:
            return refuse(command, SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        if is_tag(subscription.expression_type):
            return self._filters.of_codes(subscription.sub_string, set(subscription.code_set))
        data = self._consumer_filters.get(header.topic, header.consumer_group)
        if data is None:
            remark = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            return refuse(command, FILTER_DATA_NOT_EXIST, remark)
        if data.client_version < header.sub_version:
            return refuse(command, FILTER_DATA_NOT_LATEST, "the consumer's consumer filter data not latest")
        return self._for_topic(header.topic, header.consumer_group, data.filter)

    def _for_topic(self, topic: str, group: str, chosen: PullFilter) -> PullFilter:
        if self._filter_retries and topic.startswith(RETRY_PREFIX):
            return self._consumer_filters.retry_filter(group, chosen)
        return chosen
