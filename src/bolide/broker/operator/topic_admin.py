"""Create or update topics (17, 18), list them (21), get one (351), delete them (215), and list system topics (305).

Decision rows: docs/protocol/behaviour.md 5 and AdminBrokerProcessor of 5.5.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from bolide.broker.core.channel import Channel
from bolide.broker.core.names import topic_refusal
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.rows import Text
from bolide.broker.core.service import Routes, Service
from bolide.broker.operator.config_list import listed_configs
from bolide.broker.operator.metadata_page import page
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import CLEANED_BY_MASTER, TABLES_AT_MASTER, Refused
from bolide.broker.tables.attributes import MESSAGE_TYPE, MIXED, TOPIC, altered, parse_changes
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.topic_config import MULTI_TAG, SINGLE_TAG, TopicConfig
from bolide.broker.tables.topics import TopicTable
from bolide.dispatch.multi import is_lmq
from bolide.layout.limits import MAX_QUEUES
from bolide.layout.permissions import PERM_ALL
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.topics import DELETED_TOPICS, GUESSED_TOPICS, TopicList
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.topics import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetTopicConfigRequestHeader,
)
from bolide.remoting.request_access import CREATE_TOPIC, DELETE_TOPIC, GET_TOPIC, SIGNED_GET, SIGNED_UPDATE
from bolide.remoting.request_routes import Kind, RawRoute, Route
from bolide.store.message_store import MessageStore


class Picks(Protocol):
    """Validates the plug-ins that topic attributes name."""

    def make(self, attributes: dict[str, str]) -> None:
        """Create the plug-ins that these attributes name. Raises `Refused` 1 with the known names."""

    def changed(self) -> None:
        """Called when the table of topics has changed."""


class TopicAdminService(Service):
    """Updates and returns the table of topics."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        topics: TopicTable,
        offsets: ConsumerOffsets,
        picks: Picks | None = None,
        forget: Sequence[Callable[[str], None]] = (),
    ) -> None:
        """`forget` is called with the name of each deleted topic."""
        self._options = options
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._picks = picks
        self._forget = forget

    def routes(self) -> Routes:
        return [
            Route(
                codes.UPDATE_AND_CREATE_TOPIC,
                CreateTopicRequestHeader,
                self.on_create,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=CREATE_TOPIC,
            ),
            RawRoute(
                codes.UPDATE_AND_CREATE_TOPIC_LIST,
                None,
                self.on_create_list,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=SIGNED_UPDATE,
            ),
            Route(
                codes.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigRequestHeader, self.on_all, Kind.READ, access=SIGNED_GET
            ),
            Route(codes.GET_TOPIC_CONFIG, GetTopicConfigRequestHeader, self.on_one, Kind.READ, access=GET_TOPIC),
            Route(
                codes.DELETE_TOPIC_IN_BROKER,
                DeleteTopicRequestHeader,
                self.on_delete,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=DELETE_TOPIC,
            ),
            RawRoute(
                codes.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, None, self.on_system_topics, Kind.READ, access=SIGNED_GET
            ),
            RawRoute(
                codes.CLEAN_UNUSED_TOPIC,
                None,
                self.on_clean_unused,
                Kind.CHANGE,
                at_master=CLEANED_BY_MASTER,
                access=SIGNED_UPDATE,
            ),
        ]

    def on_create(self, channel: Channel, command: Command, header: CreateTopicRequestHeader, now: int) -> Outcome:
        config = TopicConfig(
            header.topic,
            header.read_queue_nums,
            header.write_queue_nums,
            header.perm,
            header.topic_filter_type,
            header.topic_sys_flag or 0,
            header.order,
        )
        self._check(config)
        config.attributes = parse_changes(header.attributes or "")
        self._put([config], now)
        return reply(make_response(command, codes.SUCCESS))

    def on_create_list(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Create all topics of the list, or none if one is invalid. Attribute keys have a sign as prefix, as in 17."""
        configs = [TopicConfig.from_json("", fields) for fields in listed_configs(command, "topicConfigList")]
        for config in configs:
            self._check(config)
        self._put(configs, now)
        return reply(make_response(command, codes.SUCCESS))

    def _check(self, config: TopicConfig) -> None:
        """Raise `Refused` 29 for an invalid topic."""
        refusal = topic_refusal(config.topic_name)
        if refusal is not None:
            raise Refused(codes.INVALID_PARAMETER, refusal)
        if self._topics.is_system(config.topic_name):
            text = f"The topic[{config.topic_name}] is conflict with system topic."
            raise Refused(codes.INVALID_PARAMETER, text)
        if config.topic_filter_type not in (SINGLE_TAG, MULTI_TAG):
            raise Refused(codes.SYSTEM_ERROR, f"topicFilterType = [{config.topic_filter_type[:40]}] value invalid")
        if not 0 <= config.perm <= PERM_ALL:
            text = f"the perm {config.perm} of topic[{config.topic_name}] must be from 0 to {PERM_ALL}"
            raise Refused(codes.INVALID_PARAMETER, text)
        if not (0 <= config.read_queue_nums <= MAX_QUEUES and 0 <= config.write_queue_nums <= MAX_QUEUES):
            text = f"the queue numbers of topic[{config.topic_name}] must be from 0 to {MAX_QUEUES}"
            raise Refused(codes.INVALID_PARAMETER, text)

    def _put(self, configs: list[TopicConfig], now: int) -> None:
        """Store these topics after applying their attribute changes. Raises `Refused` before the first is stored."""
        for config in configs:
            known = self._topics.get(config.topic_name)
            if (
                config.attributes.get("+" + MESSAGE_TYPE) == MIXED
                and not self._options.tables.enable_mixed_message_type
            ):
                raise Refused(codes.INVALID_PARAMETER, "MIXED message type is not supported.")
            config.attributes = altered(TOPIC, None if known is None else known.attributes, config.attributes)
            if self._picks is not None:
                self._picks.make(config.attributes)
        for config in configs:
            known = self._topics.get(config.topic_name)
            if known is None or known.to_json() != config.to_json() or config.topic_name in self._topics.guessed:
                self._topics.put(config, now)
            else:
                self._topics.repeated()
        if self._picks is not None:
            self._picks.changed()

    def on_all(self, channel: Channel, command: Command, header: GetAllTopicConfigRequestHeader, now: int) -> Outcome:
        """Return all topics, or a page if a 5.x client requests one.

        With an additional field, a slave of Bolide requests the end offsets of the log at which topics were deleted.
        Its copies of the table may not show that a topic was recreated, or that a deleted one existed. The response
        also lists the topics with an inferred number of queues. Java's broker returns neither, and its slaves request
        neither.
        """
        version = self._topics.data_version.to_json()
        names = page(
            self._options, self._topics.table, version, header.data_version, header.topic_seq, header.max_topic_num
        )
        text = Text()
        text.member("dataVersion", encode_body(version))
        text.member("mappingDataVersion", b'{"counter":0,"stateVersion":0,"timestamp":0}')
        text.rows("topicConfigTable", self._topics.rows_of(names))
        text.member("topicQueueMappingDetailMap", b"{}")
        text.member("topicQueueMappingInfoMap", b"{}")
        asked = DELETED_TOPICS in command.ext()
        marks = self._store.queues.deleted.marks if asked else {}
        deleted = {name: marks[name] for name in names if name in marks} if marks else {}
        if marks and not header.topic_seq:
            deleted |= {name: offset for name, offset in marks.items() if name not in self._topics.table}
        if deleted:
            text.member(DELETED_TOPICS, encode_body(deleted))
        guessed = self._topics.queues_guessed(names) if asked else {}
        if guessed:
            text.member(GUESSED_TOPICS, encode_body(guessed))
        ext = {"totalTopicNum": str(len(self._topics.table))}
        return reply(make_response(command, codes.SUCCESS, ext=ext, body=text.join()))

    def on_one(self, channel: Channel, command: Command, header: GetTopicConfigRequestHeader, now: int) -> Outcome:
        config = self._topics.get(header.topic)
        if config is None:
            remark = f"No topic in this broker. topic: {header.topic}"
            return reply(make_response(command, codes.TOPIC_NOT_EXIST, remark))
        return reply(make_response(command, codes.SUCCESS, body=encode_body(config.to_json())))

    def on_delete(self, channel: Channel, command: Command, header: DeleteTopicRequestHeader, now: int) -> Outcome:
        topic = header.topic
        if not topic.strip():
            return reply(make_response(command, codes.INVALID_PARAMETER, "The specified topic is blank."))
        if self._topics.is_system(topic):
            remark = f"The topic[{topic}] is conflict with system topic."
            return reply(make_response(command, codes.INVALID_PARAMETER, remark))
        self._store.delete_topic(topic)  # first, so that no queue is deleted if its tombstone cannot be written
        self._topics.delete(topic, now)
        self._forget_all(topic, now)
        return reply(make_response(command, codes.SUCCESS))

    def on_clean_unused(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Delete the queues of topics that are not in the table, so that they cannot be read. Light queues are kept."""
        for topic in self._store.queues.topics():
            if self._topics.get(topic) is None and not self._topics.is_system(topic) and not is_lmq(topic):
                self._store.delete_topic(topic)
                self._forget_all(topic, now)
        return reply(make_response(command, codes.SUCCESS))

    def drop(self, topic: str, now: int) -> None:
        """Delete the messages of a topic that the master of this slave has deleted. The table does not contain it."""
        self._store.delete_topic(topic)
        self._forget_all(topic, now)

    def _forget_all(self, topic: str, now: int) -> None:
        self._offsets.remove_topic(topic, now)
        for forget in self._forget:
            forget(topic)
        if self._picks is not None:
            self._picks.changed()

    def on_system_topics(self, channel: Channel, command: Command, now: int) -> Outcome:
        return reply(make_response(command, codes.SUCCESS, body=encode_body(TopicList(sorted(self._topics.system)))))
