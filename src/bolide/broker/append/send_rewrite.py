"""Properties of a message that the broker changes before it stores the message: the rare cases of SEND.

RocketMQ 5.x rebuilds the whole string for every message. Here the received string is only extended, unless it contains
names that the broker sets or drops (docs/protocol/behaviour.md 2, docs/protocol/store.md 9).
"""

from __future__ import annotations

from bolide.broker.append.log_writer import delay_level
from bolide.layout.message_properties import MessageProperties
from bolide.layout.property_names import (
    CLUSTER,
    MSG_REGION,
    POP_CK,
    PRIORITY,
    REAL_QID,
    REAL_TOPIC,
    SHARDING_KEY,
    TRACE_ON,
    TRANSACTION_ID,
    TRANSIENT_PREFIX,
)

_DROPPED = frozenset((MSG_REGION, TRACE_ON, CLUSTER, POP_CK, PRIORITY))


def clean(properties: MessageProperties) -> None:
    """Remove properties that the broker sets or drops, and invalid ones."""
    properties.normalize()
    for name in [name for name in properties.pairs() if name in _DROPPED or name.startswith(TRANSIENT_PREFIX)]:
        properties.drop(name)


def priority_queue(properties: MessageProperties, write_queue_nums: int) -> int:
    """Return the queue that a `_SYS_MSG_PRIORITY_` property selects (5.5), or -1 if it selects none."""
    priority = properties.get(PRIORITY)
    if priority is None or not priority.isdecimal():
        return -1
    if properties.transactional or properties.timer or delay_level(properties) > 0:
        return -1
    if properties.get(SHARDING_KEY) is not None:
        return -1
    return min(int(priority), write_queue_nums - 1)


def make_half(properties: MessageProperties, topic: str, queue_id: int) -> None:
    """Store the real topic and queue of a half message in its properties, for the commit."""
    properties.set(REAL_TOPIC, topic)
    properties.set(REAL_QID, str(queue_id))
    if properties.uniq_key:
        properties.set(TRANSACTION_ID, properties.uniq_key)
