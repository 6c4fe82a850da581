"""Manage consumer groups: create or update (200, 225), list (201), get (352), delete (207), forbid a topic (353). Query
connections of a group (203, 204, 328) and consumers of a topic (300, 343, 345): AdminBrokerProcessor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bolide.broker.core.channel import Channel
from bolide.broker.core.names import group_refusal, is_system_group
from bolide.broker.core.outcome import Outcome, reply
from bolide.broker.core.rows import Text
from bolide.broker.core.service import Routes, Service
from bolide.broker.core.stats import BrokerStats
from bolide.broker.operator.config_list import listed_configs
from bolide.broker.operator.metadata_page import page
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.refused import TABLES_AT_MASTER, Refused
from bolide.broker.tables.attributes import GROUP, altered
from bolide.broker.tables.clients import Client, Clients
from bolide.broker.tables.consumer_offsets import ConsumerOffsets
from bolide.broker.tables.groups import GroupTable, SubscriptionGroupConfig, check_size
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.topics import TopicList
from bolide.remoting.command import Command, make_response
from bolide.remoting.errors import BodyError
from bolide.remoting.headers.clients import (
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from bolide.remoting.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
    UpdateGroupForbiddenRequestHeader,
)
from bolide.remoting.json import MAX_TEXT, parse_long
from bolide.remoting.request_access import (
    ADMINISTER,
    DELETE_GROUP,
    GET_CLUSTER,
    GET_CONSUMER_GROUP,
    GET_GROUP,
    GET_GROUP_AND_TOPIC,
    GET_TOPIC,
    SIGNED_GET,
    SIGNED_UPDATE,
    UPDATE_GROUP_AND_TOPIC,
)
from bolide.remoting.request_routes import Kind, RawRoute, Route


class GroupAdminService(Service):
    """Updates and returns consumer groups."""

    def __init__(
        self,
        options: BrokerOptions,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        clients: Clients,
        address: Callable[[], str],
        stats: BrokerStats,
    ) -> None:
        """`address()` returns the `ip:port` of this broker for clients."""
        self._options = options
        self._address = address
        self._stats = stats
        self._groups = groups
        self._offsets = offsets
        self._clients = clients

    def routes(self) -> Routes:
        return [*self._changes(), *self._reads()]

    def _changes(self) -> Routes:
        return [
            RawRoute(
                codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
                None,
                self.on_create,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=ADMINISTER,
            ),
            RawRoute(
                codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
                None,
                self.on_create_list,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=SIGNED_UPDATE,
            ),
            Route(
                codes.UPDATE_AND_GET_GROUP_FORBIDDEN,
                UpdateGroupForbiddenRequestHeader,
                self.on_forbid,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=UPDATE_GROUP_AND_TOPIC,
            ),
            Route(
                codes.DELETE_SUBSCRIPTIONGROUP,
                DeleteSubscriptionGroupRequestHeader,
                self.on_delete,
                Kind.CHANGE,
                at_master=TABLES_AT_MASTER,
                access=DELETE_GROUP,
            ),
        ]

    def _reads(self) -> Routes:
        return [
            Route(
                codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
                GetAllSubscriptionGroupRequestHeader,
                self.on_all,
                Kind.READ,
                access=SIGNED_GET,
            ),
            Route(
                codes.GET_SUBSCRIPTIONGROUP_CONFIG,
                GetSubscriptionGroupConfigRequestHeader,
                self.on_one,
                Kind.READ,
                access=GET_GROUP,
            ),
            Route(
                codes.GET_CONSUMER_CONNECTION_LIST,
                GetConsumerConnectionListRequestHeader,
                self.on_consumer_connections,
                Kind.READ,
                access=GET_CONSUMER_GROUP,
            ),
            Route(
                codes.GET_PRODUCER_CONNECTION_LIST,
                GetProducerConnectionListRequestHeader,
                self.on_producer_connections,
                Kind.READ,
                access=GET_CLUSTER,
            ),
            RawRoute(codes.GET_ALL_PRODUCER_INFO, None, self.on_all_producers, Kind.READ, access=GET_CLUSTER),
            Route(
                codes.QUERY_TOPIC_CONSUME_BY_WHO,
                QueryTopicConsumeByWhoRequestHeader,
                self.on_groups_of_topic,
                Kind.READ,
                access=GET_TOPIC,
            ),
            Route(
                codes.QUERY_TOPICS_BY_CONSUMER,
                QueryTopicsByConsumerRequestHeader,
                self.on_topics_of_group,
                Kind.READ,
                access=GET_GROUP,
            ),
            Route(
                codes.QUERY_SUBSCRIPTION_BY_CONSUMER,
                QuerySubscriptionByConsumerRequestHeader,
                self.on_subscription,
                Kind.READ,
                access=GET_GROUP_AND_TOPIC,
            ),
        ]

    def on_create(self, channel: Channel, command: Command, now: int) -> Outcome:
        fields: Any = parse_long(command.body, MAX_TEXT) if command.body else None
        if fields is None:
            return reply(make_response(command, codes.SUCCESS))  # as Java: no body, nothing to do
        if not isinstance(fields, dict):
            raise BodyError("the body must be an object; send a SubscriptionGroupConfig as JSON")
        self._put([fields], now)
        return reply(make_response(command, codes.SUCCESS))

    def on_create_list(self, channel: Channel, command: Command, now: int) -> Outcome:
        """Create all groups of the list, or none if one is invalid."""
        self._put(listed_configs(command, "groupConfigList"), now)
        return reply(make_response(command, codes.SUCCESS))

    def _put(self, listed: list[dict[str, Any]], now: int) -> None:
        """Store these groups after applying their attribute changes. Raises `Refused` before the first is stored."""
        configs = [SubscriptionGroupConfig.from_json("", fields) for fields in listed]
        for config in configs:
            refusal = group_refusal(config.group_name)
            if refusal is not None:
                raise Refused(codes.INVALID_PARAMETER, refusal)
        for config in configs:
            known = self._groups.get(config.group_name)
            config.attributes = altered(GROUP, None if known is None else known.attributes, config.attributes)
            check_size(config)
        for config in configs:
            self._groups.put(config, now)

    def on_forbid(
        self, channel: Channel, command: Command, header: UpdateGroupForbiddenRequestHeader, now: int
    ) -> Outcome:
        if header.readable is not None and header.readable != self._groups.may_read(header.group, header.topic):
            self._groups.forbid_read(header.group, header.topic, not header.readable, now)
        elif header.readable is not None:
            self._groups.repeated()
        readable = self._groups.may_read(header.group, header.topic)
        body = {"group": header.group, "readable": readable, "topic": header.topic}
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_all(
        self, channel: Channel, command: Command, header: GetAllSubscriptionGroupRequestHeader, now: int
    ) -> Outcome:
        """Return all groups, or a page if a 5.x client requests one."""
        groups = self._groups
        version = groups.data_version.to_json()
        names = page(self._options, groups.table, version, header.data_version, header.group_seq, header.max_group_num)
        forbidden = groups.forbidden  # also of groups that do not exist
        if header.group_seq is not None:
            last = not names or names[-1] == max(groups.table)
            shown = set(names)
            forbidden = {
                name: topics
                for name, topics in forbidden.items()
                if name in shown or (last and name not in groups.table)
            }
        text = Text()
        text.member("dataVersion", encode_body(version))
        text.member("forbiddenTable", encode_body(forbidden))
        text.rows("subscriptionGroupTable", groups.rows_of(names))
        ext = {"totalGroupNum": str(len(groups.table))}
        return reply(make_response(command, codes.SUCCESS, ext=ext, body=text.join()))

    def on_one(
        self, channel: Channel, command: Command, header: GetSubscriptionGroupConfigRequestHeader, now: int
    ) -> Outcome:
        """As in Java, a query creates the group if groups are created automatically."""
        config = self._groups.find(header.group, now)
        if config is None:
            return reply(make_response(command, codes.SUBSCRIPTION_GROUP_NOT_EXIST, "No group in this broker"))
        return reply(make_response(command, codes.SUCCESS, body=encode_body(config.to_json())))

    def on_delete(
        self, channel: Channel, command: Command, header: DeleteSubscriptionGroupRequestHeader, now: int
    ) -> Outcome:
        self._groups.delete(header.group_name, now)
        self._stats.forget_group(header.group_name)
        if (header.clean_offset or header.remove_offset) and not is_system_group(header.group_name):
            self._offsets.remove_group(header.group_name, now)
        return reply(make_response(command, codes.SUCCESS))

    def on_consumer_connections(
        self, channel: Channel, command: Command, header: GetConsumerConnectionListRequestHeader, now: int
    ) -> Outcome:
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            remark = f"the consumer group[{header.consumer_group}] not online"
            return reply(make_response(command, codes.CONSUMER_NOT_ONLINE, remark))
        body = {
            "connectionSet": [_connection(client) for client in group.clients.values()],
            "consumeFromWhere": group.consume_from_where,
            "consumeType": group.consume_type,
            "messageModel": group.message_model,
            "subscriptionTable": group.subscriptions,
        }
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_producer_connections(
        self, channel: Channel, command: Command, header: GetProducerConnectionListRequestHeader, now: int
    ) -> Outcome:
        clients = self._clients.producer_groups.get(header.producer_group)
        if not clients:
            remark = f"the producer group[{header.producer_group}] not exist"
            return reply(make_response(command, codes.SYSTEM_ERROR, remark))
        body = {"connectionSet": [_connection(client) for client in clients.values()]}
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_all_producers(self, channel: Channel, command: Command, now: int) -> Outcome:
        groups = {
            name: [
                {
                    "clientId": client.client_id,
                    "language": codes.language_name(client.language),
                    "lastUpdateTimestamp": client.last_update,
                    "remoteIP": "/" + client.channel.remote,  # as Java writes a socket address
                    "version": client.version,
                }
                for client in clients.values()
            ]
            for name, clients in self._clients.producer_groups.items()
        }
        return reply(make_response(command, codes.SUCCESS, body=encode_body({"data": groups})))

    def on_groups_of_topic(
        self, channel: Channel, command: Command, header: QueryTopicConsumeByWhoRequestHeader, now: int
    ) -> Outcome:
        groups = set(self._clients.groups_of_topic(header.topic)) | set(self._offsets.groups_of(header.topic))
        return reply(make_response(command, codes.SUCCESS, body=encode_body({"groupList": sorted(groups)})))

    def on_topics_of_group(
        self, channel: Channel, command: Command, header: QueryTopicsByConsumerRequestHeader, now: int
    ) -> Outcome:
        body = TopicList(sorted(self._offsets.topics_of(header.group)), self._address())
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))

    def on_subscription(
        self, channel: Channel, command: Command, header: QuerySubscriptionByConsumerRequestHeader, now: int
    ) -> Outcome:
        data = self._clients.subscription(header.group, header.topic or "")
        body: dict[str, Any] = {"group": header.group, "topic": header.topic}
        if data is not None:
            body["subscriptionData"] = data
        return reply(make_response(command, codes.SUCCESS, body=encode_body(body)))


def _connection(client: Client) -> dict[str, Any]:
    return {
        "clientAddr": client.channel.remote,
        "clientId": client.client_id,
        "language": codes.language_name(client.language),
        "version": client.version,
    }
