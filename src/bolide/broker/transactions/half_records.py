"""Content of a half message's record: its target, its number of checks, and the message it copies. Also creates
renewals."""

from __future__ import annotations

from bolide.broker.core.names import is_internal_topic, printable, topic_refusal
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.message_properties import MessageProperties
from bolide.layout.properties import property_value
from bolide.layout.record import Record, copy_of
from bolide.layout.sysflag import TRANSACTION_MASK
from bolide.remoting.headers.decode import java_int


def check_times(record: Record) -> int:
    """Return the number of checks sent to the producer, or 0 if the property is not a number."""
    return max(java_int(property_value(record.properties, names.TRANSACTION_CHECK_TIMES) or "0", 31) or 0, 0)


def real_place(properties: MessageProperties) -> tuple[str, int] | None:
    """Return topic and queue of the message, or None if a commit could not store it there.

    A deleted topic, or a topic with fewer queues now, is allowed: as in Java, the message is stored there.
    """
    topic = properties.get(names.REAL_TOPIC) or ""
    queue_id = java_int(properties.get(names.REAL_QID) or "0", 31)
    if queue_id is None or not 0 <= queue_id < MAX_QUEUES or topic_refusal(topic) is not None:
        return None
    return None if is_internal_topic(topic) else (topic, queue_id)


def misplaced(properties: MessageProperties) -> str:
    """Return the reason why `real_place` returns None, as the first clause of a sentence."""
    topic, queue_id = properties.get(names.REAL_TOPIC) or "", properties.get(names.REAL_QID) or "0"
    return f"the half message is for queue {printable(queue_id)!r} of topic {printable(topic)!r}, which is invalid"


def message_key(record: Record) -> tuple[str, int, bytes]:
    """Return a key that all records of one message share, and hardly any other record has."""
    return (property_value(record.properties, names.UNIQ_KEY) or "", record.born_timestamp, record.born_host)


def is_same_message(one: Record, other: Record) -> bool:
    """Return whether two records contain one message, stored twice for its transaction."""
    return message_key(one) == message_key(other) and one.body == other.body


def renewal(record: Record, topic: str, properties: MessageProperties) -> BrokerMessage:
    """Return a half message to store again. A delay applies when the transaction commits, not to its half message."""
    message = copy_of(record, topic, 0, properties)
    message.sys_flag &= ~TRANSACTION_MASK
    return message


def immunity_ms(custom: str, shortest: int) -> int:
    """Return the time in ms for which a half message is not checked, from its property in seconds. An invalid value is
    treated as `shortest`."""
    try:
        return max(int(custom) * 1000, shortest)
    except ValueError:
        return shortest
