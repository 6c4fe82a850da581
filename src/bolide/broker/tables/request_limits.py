"""Maximum number of items in one request.

A request runs in one turn, which blocks other clients. These limits keep it below about 50 ms. They are far above what
RocketMQ's clients and tools send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bolide.broker.refused import Refused
from bolide.broker.tables.pull_filter import is_tag
from bolide.remoting.bodies.clients import HeartbeatData, SubscriptionData
from bolide.remoting.codes import SYSTEM_ERROR, request_name
from bolide.remoting.command import Command

MAX_BODY: Final = 1024 * 1024
"""Maximum bytes of a body with a list. The time to parse it depends on its size."""
MAX_LOCKED_QUEUES: Final = 20_000
"""Maximum queues in one lock or unlock request."""
MAX_CONFIGS: Final = 1_000
"""Maximum topics or groups in one list to create."""
MAX_HEARTBEAT_GROUPS: Final = 1_000
"""Maximum producer and consumer groups in one heartbeat."""
MAX_SUBSCRIPTIONS: Final = 10_000
"""Maximum subscriptions of all groups in one heartbeat."""
FILTERS_OF_FULL_LENGTH: Final = 8
"""Maximum total length of the filter expressions in one heartbeat, in multiples of the longest allowed one."""


def check_body(command: Command) -> None:
    """Raise `Refused` 1 if a body is too long to parse in one turn."""
    if len(command.body) > MAX_BODY:
        raise _too_much(command, f"a body of {len(command.body)} bytes", MAX_BODY)


def check_listed(command: Command, count: int, most: int, what: str) -> None:
    """Raise `Refused` 1 if a request lists more than `most` items."""
    if count > most:
        raise _too_much(command, f"{count} {what}", most)


def check_heartbeat(command: Command, data: HeartbeatData, max_filter_length: int) -> None:
    """Raise `Refused` 1 if a heartbeat exceeds a limit or uses a class filter. It is then not registered."""
    consumers = data.consumer_data_set
    check_listed(command, len(consumers) + len(data.producer_data_set), MAX_HEARTBEAT_GROUPS, "groups")
    check_listed(
        command, sum(len(each.subscription_data_set) for each in consumers), MAX_SUBSCRIPTIONS, "subscriptions"
    )
    check_class_filters(each for consumer in consumers for each in consumer.subscription_data_set)
    expressions = [
        len(each.sub_string or "")
        for consumer in consumers
        for each in consumer.subscription_data_set
        if not is_tag(each.expression_type)
    ]
    check_listed(command, sum(expressions), FILTERS_OF_FULL_LENGTH * max_filter_length, "characters of filters")


def check_class_filters(subscriptions: Iterable[SubscriptionData]) -> None:
    """Raise `Refused` 1 for a subscription whose filter is a Java class, which 4.x runs in a filter server. Without the
    filter its consumers would receive every message."""
    for each in subscriptions:
        if each.class_filter_mode:
            raise Refused(SYSTEM_ERROR, no_class_filters(each.topic))


def no_class_filters(topic: str) -> str:
    """Return the error for a class filter."""
    text = f"the subscription to {topic} names a Java class as its filter, and there are no filter servers"
    return f"{text}: subscribe with an SQL92 expression, or filter in the consumer"


def _too_much(command: Command, what: str, most: int) -> Refused:
    text = f"{request_name(command.code)} with {what} is too much at once: {most} are allowed, send several requests"
    return Refused(SYSTEM_ERROR, text)
