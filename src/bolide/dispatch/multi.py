"""Light queues (LMQ) that a record enters in addition to its own queue. RocketMQ's LmqDispatch, MultiDispatchUtils.

INNER_MULTI_DISPATCH lists them (``%LMQ%a,%LMQ%b``). INNER_MULTI_QUEUE_OFFSET contains the record's queue offset in
each, in the same order. A light queue is queue 0 of a topic that exists only as queue files, so a broker can have tens
of thousands of them.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from bolide.layout.names import LMQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, SYSTEM_TOPIC_PREFIX
from bolide.layout.properties import property_value
from bolide.layout.property_names import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET

LMQ_QUEUE_ID: Final = 0
SEPARATOR: Final = ","
MAX_NAME_BYTES: Final = 255
"""Maximum length of a folder's name in bytes."""
_MAX_DIGITS: Final = 17
"""Maximum number of digits of a queue offset. A queue file could not be named after a longer offset."""


@final
class MultiQueue:
    """A light queue of one record, and the record's offset in it."""

    def __init__(self, topic: str, queue_offset: i64) -> None:
        self.topic: str = topic
        self.queue_offset: i64 = queue_offset


def is_lmq(name: str) -> bool:
    """Whether a topic or group exists without configuration if LMQ is enabled."""
    return name.startswith(LMQ_PREFIX)


def topic_allows_lmq(topic: str) -> bool:
    """Return whether messages of a topic enter light queues.

    Messages in retry, schedule and internal topics do so later, under their real topic.
    """
    return not topic.startswith((RETRY_PREFIX, SYSTEM_TOPIC_PREFIX)) and topic != SCHEDULE_TOPIC


def fits_a_folder(name: str) -> bool:
    """Return whether this is the name of a light queue that is also a valid folder name."""
    if not name.startswith(LMQ_PREFIX) or "/" in name or "\0" in name:
        return False
    return len(name.encode("utf-8", "replace")) <= MAX_NAME_BYTES


def is_place(topic: str, queue_id: i64) -> bool:
    """Return whether topic and queue id are valid folder names, so that the queue's files stay within the store.

    `broker/append/log_writer.py` rejects other names, but an older log or another broker's may contain them.
    """
    if queue_id < 0 or topic in ("", ".", "..") or "/" in topic or "\0" in topic:
        return False
    return len(topic.encode("utf-8", "replace")) <= MAX_NAME_BYTES


def split_names(text: str) -> list[str]:
    """Split a list as Java's String.split does: empty parts at the end are dropped."""
    names = text.split(SEPARATOR)
    while names and not names[-1]:
        names.pop()
    return names


def multi_queues(topic: str, properties: bytes) -> list[MultiQueue] | None:
    """Return the light queues of a stored record, or None.

    If the two lists differ in length, the record enters no light queue, as in Java. A name that is not a light queue,
    or an offset that is not a number (Java's dispatch would stop permanently at such a record), excludes only that
    queue.
    """
    if not topic_allows_lmq(topic):
        return None
    names = property_value(properties, INNER_MULTI_DISPATCH)
    offsets = property_value(properties, INNER_MULTI_QUEUE_OFFSET)
    if not names or not offsets:
        return None
    listed = split_names(names)
    numbers = split_names(offsets)
    if len(listed) != len(numbers):
        return None
    found: list[MultiQueue] = []
    seen: set[str] = set()
    for name, number in zip(listed, numbers, strict=True):
        if name in seen or not (fits_a_folder(name) and is_offset(number)):
            continue
        seen.add(name)
        found.append(MultiQueue(name, int(number)))
    return found or None


def with_offsets(properties: bytes, queues: list[MultiQueue]) -> bytes:
    """Return properties that list these light queues with the record's offset in each queue appended."""
    numbers = SEPARATOR.join([str(queue.queue_offset) for queue in queues])
    between = b"" if not properties or properties.endswith(b"\x02") else b"\x02"
    return b"%b%bINNER_MULTI_QUEUE_OFFSET\x01%b\x02" % (properties, between, numbers.encode())


def is_offset(text: str) -> bool:
    """Whether the text is a queue offset in digits."""
    return 0 < len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
