"""Lists of topic names: codes 206, 224, 304, 311, 312 and 313 (DefaultRequestProcessor.java)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bolide.namesrv.handler import Handler, Routes
from bolide.namesrv.options import Settings
from bolide.namesrv.tables import Tables
from bolide.remoting import codes
from bolide.remoting.bodies import encode_body
from bolide.remoting.bodies.topics import TopicList
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.namesrv import GetTopicsByClusterRequestHeader
from bolide.remoting.request_routes import Kind, RawRoute, Route

UNIT: Final = 0x1  # topicSysFlag: the topic belongs to a unit
UNIT_SUB: Final = 0x2  # topicSysFlag: it is subscribed to by a unit


class TopicListService:
    """Serves lists of topic names."""

    def __init__(self, tables: Tables, settings: Settings) -> None:
        self.tables = tables
        self.settings = settings

    def routes(self) -> Routes:
        """Return the routes of the served request codes."""
        return [
            RawRoute(codes.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, self.on_all, Kind.READ),
            Route(codes.GET_TOPICS_BY_CLUSTER, GetTopicsByClusterRequestHeader, self.on_cluster, Kind.READ),
            RawRoute(codes.GET_SYSTEM_TOPIC_LIST_FROM_NS, None, self.on_system, Kind.READ),
            RawRoute(codes.GET_UNIT_TOPIC_LIST, None, self._by_flag(lambda flag: bool(flag & UNIT)), Kind.READ),
            RawRoute(
                codes.GET_HAS_UNIT_SUB_TOPIC_LIST, None, self._by_flag(lambda flag: bool(flag & UNIT_SUB)), Kind.READ
            ),
            RawRoute(
                codes.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
                None,
                self._by_flag(lambda flag: flag & (UNIT | UNIT_SUB) == UNIT_SUB),
                Kind.READ,
            ),
        ]

    def on_all(self, channel_id: int, command: Command, now: int) -> Command:
        """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
        if not self.settings.options.enable_all_topic_list:
            return make_response(command, codes.SYSTEM_ERROR, "disable: enableAllTopicList is false")
        return make_response(command, codes.SUCCESS, body=encode_body(TopicList(list(self.tables.topics))))

    def on_cluster(
        self, channel_id: int, command: Command, header: GetTopicsByClusterRequestHeader, now: int
    ) -> Command:
        """GET_TOPICS_BY_CLUSTER. Returns topics with a queue at any broker of the cluster; an unknown cluster has no
        topics."""
        names = self.tables.clusters.get(header.cluster, {})
        return self._answer(
            command, TopicList([t for t, queues in self.tables.topics.items() if names.keys() & queues])
        )

    def on_system(self, channel_id: int, command: Command, now: int) -> Command:
        """GET_SYSTEM_TOPIC_LIST_FROM_NS: names of clusters and brokers, and the address of one broker."""
        named = (name for cluster, brokers in self.tables.clusters.items() for name in (cluster, *brokers))
        names = list(dict.fromkeys(named))  # a cluster and a broker may have the same name
        addrs = [addr for broker in self.tables.brokers.values() for addr in broker.broker_addrs.values()]
        return make_response(command, codes.SUCCESS, body=encode_body(TopicList(names, addrs[0] if addrs else None)))

    def _by_flag(self, wanted: Callable[[int], bool]) -> Handler:
        """Return a handler that lists topics whose sys flag at their first broker satisfies `wanted`."""

        def handler(channel_id: int, command: Command, now: int) -> Command:
            topics = self.tables.topics.items()
            found = [topic for topic, queues in topics if wanted(next(iter(queues.values())).topic_sys_flag)]
            return self._answer(command, TopicList(found))

        return handler

    def _answer(self, command: Command, topics: TopicList) -> Command:
        if not self.settings.options.enable_topic_list:
            return make_response(command, codes.SYSTEM_ERROR, "disable: enableTopicList is false")
        return make_response(command, codes.SUCCESS, body=encode_body(topics))
