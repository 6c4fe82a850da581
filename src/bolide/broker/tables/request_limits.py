"""How much one request may list.

What it takes runs in one piece, and nobody else is served until it is done: these keep it below some 50 ms, far above
what RocketMQ's clients and tools ask for at once.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.refused import Refused
from bolide.broker.tables.pull_filter import is_tag
from bolide.remoting.bodies.clients import HeartbeatData
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
    """Raise `Refused` 1 for a heartbeat that is too much at once; nothing of it is registered then."""
    consumers = data.consumer_data_set
    check_listed(command, len(consumers) + len(data.producer_data_set), MAX_HEARTBEAT_GROUPS, "groups")
    check_listed(
        command, sum(len(each.subscription_data_set) for each in consumers), MAX_SUBSCRIPTIONS, "subscriptions"
    )
    expressions = [
        len(each.sub_string or "")
        for consumer in consumers
        for each in consumer.subscription_data_set
        if not is_tag(each.expression_type)
    ]
    check_listed(command, sum(expressions), FILTERS_OF_FULL_LENGTH * max_filter_length, "characters of filters")


def _too_much(command: Command, what: str, most: int) -> Refused:
    text = f"{request_name(command.code)} with {what} is too much at once: {most} are allowed, send several requests"
    return Refused(SYSTEM_ERROR, text)
