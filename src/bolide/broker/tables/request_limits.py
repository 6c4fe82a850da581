"""How much one request may list.

What it takes runs in one piece, and nobody else is served until it is done: these keep it below some 50 ms, far above
what RocketMQ's clients and tools ask for at once.
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
"""Bytes of a body that lists things: to read it takes as long, whatever it says."""
MAX_QUEUES: Final = 20_000
"""Of a request to lock or unlock queues."""
MAX_CONFIGS: Final = 1_000
"""Topics or groups created by one list."""
MAX_HEARTBEAT_GROUPS: Final = 1_000
"""Producer and consumer groups of one heartbeat."""
MAX_SUBSCRIPTIONS: Final = 10_000
"""Of all groups of one heartbeat."""
FILTERS_OF_FULL_LENGTH: Final = 8
"""The filter expressions of one heartbeat have as many characters together as so many of the longest."""


def check_body(command: Command) -> None:
    """Raise `Refused` 1 for a body that is too long to be read in one piece."""
    if len(command.body) > MAX_BODY:
        raise _too_much(command, f"a body of {len(command.body)} bytes", MAX_BODY)


def check_listed(command: Command, count: int, most: int, what: str) -> None:
    """Raise `Refused` 1 where a request lists more than `most`."""
    if count > most:
        raise _too_much(command, f"{count} {what}", most)


def check_heartbeat(command: Command, data: HeartbeatData, max_filter_length: int) -> None:
    """Raise `Refused` 1 for a heartbeat that is too much at once, or asks for a class filter. Nothing of it is
    registered then."""
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
    """Raise `Refused` 1 for a subscription whose filter is a Java class, which 4.x runs in a filter server. Without
    the filter its consumers would receive every message."""
    for each in subscriptions:
        if each.class_filter_mode:
            raise Refused(SYSTEM_ERROR, no_class_filters(each.topic))


def no_class_filters(topic: str) -> str:
    """Return the sentence that refuses a class filter."""
    text = f"the subscription to {topic} names a Java class as its filter, and there are no filter servers"
    return f"{text}: subscribe with an SQL92 expression, or filter in the consumer"


def _too_much(command: Command, what: str, most: int) -> Refused:
    text = f"{request_name(command.code)} with {what} is too much at once: {most} are allowed, send several requests"
    return Refused(SYSTEM_ERROR, text)
