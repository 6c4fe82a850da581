"""The settings of one topic, as stored in config/topics.json and sent in requests (RocketMQ's TopicConfig)."""

from __future__ import annotations

from typing import Any, Final, final

from bolide.broker.core.names import NO_SEND_TOPICS, topic_refusal
from bolide.broker.core.numbers import INT_MAX, INT_MIN, number
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.names import RETRY_PREFIX
from bolide.layout.permissions import PERM_ALL, PERM_READ, PERM_WRITE

SINGLE_TAG: Final = "SINGLE_TAG"
MULTI_TAG: Final = "MULTI_TAG"


@final
class TopicConfig:
    """Queues and permission of one topic. `perm` is a sum of 4 (read), 2 (write) and 1 (inherit)."""

    def __init__(
        self,
        topic_name: str,
        read_queue_nums: int = 16,
        write_queue_nums: int = 16,
        perm: int = 6,
        topic_filter_type: str = SINGLE_TAG,
        topic_sys_flag: int = 0,
        order: bool = False,
        attributes: dict[str, str] | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_bytes: bytes = topic_name.encode()
        self.read_queue_nums: int = read_queue_nums
        self.write_queue_nums: int = write_queue_nums
        self.perm: int = perm
        self.topic_filter_type: str = topic_filter_type
        self.topic_sys_flag: int = topic_sys_flag
        self.order: bool = order
        self.attributes: dict[str, str] = attributes if attributes is not None else {}
        self.retry: bool = topic_name.startswith(RETRY_PREFIX)
        self.named_plainly: bool = topic_name not in NO_SEND_TOPICS and topic_refusal(topic_name) is None
        """Whether clients may send to a topic with this name."""
        self.plain: bool = self.named_plainly
        """Whether sends can skip the checks of the name and of the topic's file. Computed once, not per message."""
        self.saved: bool = True
        """Whether the file contains the topic. Until then, responses to its sends wait."""

    @property
    def name(self) -> str:
        """Name of the topic."""
        return self.topic_name

    def mark_saved(self, saved: bool) -> None:
        """Set whether the file contains the topic."""
        self.saved = saved
        self.plain = saved and self.named_plainly

    def has_queues_of(self, other: TopicConfig) -> bool:
        """Return whether this topic has at least the queues of the other."""
        return self.read_queue_nums >= other.read_queue_nums and self.write_queue_nums >= other.write_queue_nums

    @property
    def readable(self) -> bool:
        """Whether consumers may pull from it."""
        return self.perm & PERM_READ != 0

    @property
    def writable(self) -> bool:
        """Whether producers may send to it."""
        return self.perm & PERM_WRITE != 0

    def to_json(self) -> dict[str, object]:
        """Return the fields under Java's names, in alphabetical order as in Java."""
        return {
            "attributes": self.attributes,
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.topic_filter_type,
            "topicName": self.topic_name,
            "topicSysFlag": self.topic_sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @staticmethod
    def from_json(name: str, fields: dict[str, Any], stored: bool = False) -> TopicConfig:
        """Read one entry of topics.json (`stored`) or of a request. Missing fields get Java's defaults.

        Raises `Refused` 29 for an invalid number in a request; in a file it is replaced by the nearest valid one.
        """
        attributes = fields.get("attributes") or {}
        low, high, perms = (0, MAX_QUEUES, PERM_ALL) if stored else (INT_MIN, INT_MAX, INT_MAX)
        filter_type = str(fields.get("topicFilterType") or SINGLE_TAG)
        if stored and filter_type != MULTI_TAG:
            filter_type = SINGLE_TAG
        return TopicConfig(
            str(fields.get("topicName") or name),
            number(fields, "readQueueNums", 16, low, high, stored),
            number(fields, "writeQueueNums", 16, low, high, stored),
            number(fields, "perm", 6, low, perms, stored),
            filter_type,
            number(fields, "topicSysFlag", 0, INT_MIN, INT_MAX, stored),
            bool(fields.get("order") or False),
            {str(key): str(value) for key, value in attributes.items()},
        )
