"""Administration of topics: create or change (17), list (21), one (351), delete (215), and the system's own (305).

Decision rows: behaviour facts section 5 and AdminBrokerProcessor of 5.5.0.
"""

from __future__ import annotations

from typing import Final

from bolide.broker.channel import Channel
from bolide.broker.consumer_offsets import ConsumerOffsets
from bolide.broker.names import topic_refusal
from bolide.broker.outcome import Handler, Outcome, reply
from bolide.broker.topics import MULTI_TAG, SINGLE_TAG, TopicConfig, TopicTable
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.topics import TopicList
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.topics import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetTopicConfigRequestHeader,
)
from bolide.store.message_store import MessageStore

PERM_MAX: Final = 7
MAX_QUEUES: Final = 65_536
"""Java sets no limit; a route and a table of offsets of this size are still harmless."""


class TopicAdminService:
    """Changes and shows the table of topics."""

    def __init__(self, store: MessageStore, topics: TopicTable, offsets: ConsumerOffsets) -> None:
        self._store = store
        self._topics = topics
        self._offsets = offsets

    def handlers(self) -> dict[int, Handler]:
        return {
            codes.UPDATE_AND_CREATE_TOPIC: self.on_create,
            codes.GET_ALL_TOPIC_CONFIG: self.on_all,
            codes.GET_TOPIC_CONFIG: self.on_one,
            codes.DELETE_TOPIC_IN_BROKER: self.on_delete,
            codes.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self.on_system_topics,
        }

    def on_create(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, CreateTopicRequestHeader)
        refusal = self._refusal(header)
        if refusal is not None:
            return reply(make_response(command, codes.INVALID_PARAMETER, refusal))
        known = self._topics.get(header.topic)
        attributes = dict(known.attributes) if known is not None else {}
        try:
            change_attributes(attributes, header.attributes or "")
        except ValueError as error:
            return reply(make_response(command, codes.SYSTEM_ERROR, str(error)))
        config = TopicConfig(
            header.topic,
            header.read_queue_nums,
            header.write_queue_nums,
            header.perm,
            MULTI_TAG if header.topic_filter_type == MULTI_TAG else SINGLE_TAG,
            header.topic_sys_flag or 0,
            header.order,
            attributes,
        )
        if known is None or known.to_json() != config.to_json():
            self._topics.put(config, now)
        return reply(make_response(command, codes.SUCCESS))

    def _refusal(self, header: CreateTopicRequestHeader) -> str | None:
        refusal = topic_refusal(header.topic)
        if refusal is not None:
            return refusal
        if self._is_system(header.topic):
            return f"The topic[{header.topic}] is conflict with system topic."
        if not 0 <= header.perm <= PERM_MAX:
            return f"the perm {header.perm} of topic[{header.topic}] must be from 0 to {PERM_MAX}"
        if not (0 <= header.read_queue_nums <= MAX_QUEUES and 0 <= header.write_queue_nums <= MAX_QUEUES):
            return f"the queue numbers of topic[{header.topic}] must be from 0 to {MAX_QUEUES}"
        return None

    def _is_system(self, topic: str) -> bool:
        return topic in self._topics.system or topic.startswith("rmq_sys_")

    def on_all(self, channel: Channel, command: Command, now: int) -> Outcome:
        body = encode_body(
            {
                "dataVersion": self._topics.data_version.to_json(),
                "mappingDataVersion": {"counter": 0, "stateVersion": 0, "timestamp": 0},
                "topicConfigTable": {name: config.to_json() for name, config in self._topics.table.items()},
                "topicQueueMappingDetailMap": {},
                "topicQueueMappingInfoMap": {},
            }
        )
        ext = {"totalTopicNum": str(len(self._topics.table))}
        return reply(make_response(command, codes.SUCCESS, ext=ext, body=body))

    def on_one(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, GetTopicConfigRequestHeader)
        config = self._topics.get(header.topic)
        if config is None:
            remark = f"No topic in this broker. topic: {header.topic}"
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, remark))
        return reply(make_response(command, codes.SUCCESS, body=encode_body(config.to_json())))

    def on_delete(self, channel: Channel, command: Command, now: int) -> Outcome:
        header = decode_header(command, DeleteTopicRequestHeader)
        topic = header.topic
        if not topic.strip():
            return reply(make_response(command, codes.INVALID_PARAMETER, "The specified topic is blank."))
        if self._is_system(topic):
            remark = f"The topic[{topic}] is conflict with system topic."
            return reply(make_response(command, codes.INVALID_PARAMETER, remark))
        self._topics.delete(topic, now)
        self._offsets.remove_topic(topic, now)
        self._store.delete_topic(topic)
        return reply(make_response(command, codes.SUCCESS))

    def on_system_topics(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=encode_body(TopicList(sorted(self._topics.system)))))


def change_attributes(attributes: dict[str, str], text: str) -> None:
    """Apply `+key=value,-key` to a topic's attributes (AttributeParser). Raises ValueError on anything else."""
    for item in text.split(","):
        if not item.strip():
            continue
        sign, rest = item[0], item[1:]
        key, equals, value = rest.partition("=")
        if sign == "+" and equals and key:
            attributes[key] = value
        elif sign == "-" and key and not equals:
            attributes.pop(key, None)
        else:
            raise ValueError(f"the attribute {item[:60]!r} must be +key=value to set or -key to remove")
