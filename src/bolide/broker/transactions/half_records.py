"""What the record of a half message says: its target, how often the producer was asked, and whose copy it is; and the
record that takes its place."""

from __future__ import annotations

from bolide.broker.core.names import is_internal_topic, printable, topic_refusal
from bolide.broker.tables.topic_config import MAX_QUEUES
from bolide.layout import property_names as names
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.message_properties import MessageProperties
from bolide.layout.properties import property_value
from bolide.layout.record import Record, copy_of
from bolide.layout.sysflag import TRANSACTION_MASK
from bolide.remoting.headers.decode import java_int


def check_times(record: Record) -> int:
    """How often the producer was asked about it; 0 when the property is not a number."""
    return max(java_int(property_value(record.properties, names.TRANSACTION_CHECK_TIMES) or "0", 31) or 0, 0)


def real_place(properties: MessageProperties) -> tuple[str, int] | None:
    """Topic and queue the message is for; None when a commit could not store it there.

    A topic that was deleted, or has fewer queues now, does not matter: as in Java the message is stored there.
    """
    topic = properties.get(names.REAL_TOPIC) or ""
    queue_id = java_int(properties.get(names.REAL_QID) or "0", 31)
    if queue_id is None or not 0 <= queue_id < MAX_QUEUES or topic_refusal(topic) is not None:
        return None
    return None if is_internal_topic(topic) else (topic, queue_id)


def misplaced(properties: MessageProperties) -> str:
    """Why `real_place` knows no place, as the end of a sentence."""
    topic, queue_id = properties.get(names.REAL_TOPIC) or "", properties.get(names.REAL_QID) or "0"
    return f"the half message is for queue {printable(queue_id)!r} of topic {printable(topic)!r}, which takes none"


def message_key(record: Record) -> tuple[str, int, bytes]:
    """What all records of one message share, and hardly any other record has."""
    return (property_value(record.properties, names.UNIQ_KEY) or "", record.born_timestamp, record.born_host)


def is_same_message(one: Record, other: Record) -> bool:
    """True when two records hold one message, stored twice for its transaction."""
    return message_key(one) == message_key(other) and one.body == other.body


def renewal(record: Record, topic: str, properties: MessageProperties) -> BrokerMessage:
    """A half message once more. A delay acts once the transaction commits, not on its half message."""
    message = copy_of(record, topic, 0, properties)
    message.sys_flag &= ~TRANSACTION_MASK
    return message


def immunity_ms(custom: str, shortest: int) -> int:
    """How long a half message is not checked, from its property in seconds; an invalid one counts as `shortest`."""
    try:
        return max(int(custom) * 1000, shortest)
    except ValueError:
        return shortest
