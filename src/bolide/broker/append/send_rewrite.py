"""Properties of a message that the broker changes before storing it: the rare cases of SEND.

RocketMQ 5.x rebuilds the whole string for every message; here the string is kept as it came and only extended, unless
it holds names the broker sets or drops (docs/protocol/behaviour.md 2, docs/protocol/store.md 9).
"""

from __future__ import annotations

from bolide.broker.append.log_writer import PropertyScan
from bolide.layout.properties import format_properties, parse_properties
from bolide.layout.property_names import TRANSIENT_PREFIX

_DROPPED = ("MSG_REGION", "TRACE_ON", "CLUSTER", "POP_CK", "_SYS_MSG_PRIORITY_")


def rewritten(text: str) -> str:
    """The string without what the broker sets itself, what it drops, and what no reader would take."""
    properties = parse_properties(text)
    for name in _DROPPED:
        properties.pop(name, None)
    for name in [name for name in properties if name.startswith(TRANSIENT_PREFIX)]:
        del properties[name]
    return format_properties(properties)


def priority_queue(text: str, found: PropertyScan, write_queue_nums: int) -> int:
    """The queue a `_SYS_MSG_PRIORITY_` property chooses (5.5), or -1 when it chooses none."""
    properties = parse_properties(text)
    priority = properties.get("_SYS_MSG_PRIORITY_")
    if priority is None or not priority.isdecimal():
        return -1
    if found.transactional or found.delay_level > 0 or found.timer or "__SHARDINGKEY" in properties:
        return -1
    return min(int(priority), write_queue_nums - 1)


def half_properties(text: str, topic: str, queue_id: int, uniq_key: str) -> str:
    """The stored properties of a half message: where it will go when its transaction commits."""
    properties = parse_properties(text)
    properties["REAL_TOPIC"] = topic
    properties["REAL_QID"] = str(queue_id)
    if uniq_key:
        properties["__transactionId__"] = uniq_key
    return format_properties(properties)


def without_delay(text: str) -> str:
    """The properties of a message that goes to the dead letters at once: its level is taken back (5.x)."""
    properties = parse_properties(text)
    properties["DELAY"] = "-1"
    return format_properties(properties)
