"""Topic routes: codes 105, 106, 205, 216, 217, 327 and 901 (ClientRequestProcessor.java).

Routes are always encoded as strict JSON, whatever the version of the client: old clients can also read it.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bolide.layout.names import MASTER_ID, SYNC_MEMBER_TOPIC_PREFIX
from bolide.layout.permissions import PERM_READ, PERM_WRITE
from bolide.namesrv.handler import Routes
from bolide.namesrv.kv import ORDER_TOPIC_CONFIG, KvService
from bolide.namesrv.options import Settings
from bolide.namesrv.tables import MAX_NAME, BrokerAddress, Tables
from bolide.remoting import codes
from bolide.remoting.bodies import decode_body, encode_body
from bolide.remoting.bodies.route import (
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
    QueueData,
    TopicRouteData,
)
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    RegisterTopicRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from bolide.remoting.request_routes import Kind, RawRoute, Route

ZONE_MODE: Final = "__ZONE_MODE"
ZONE_NAME: Final = "__ZONE_NAME"


class RouteService:
    """Serves queries about topics and brokers, and the commands that change routes manually."""

    def __init__(self, tables: Tables, settings: Settings, kv: KvService, start: int) -> None:
        self.start = start
        self.tables = tables
        self.settings = settings
        self.kv = kv

    def routes(self) -> Routes:
        """Return the routes of the served request codes."""
        return [
            Route(
                codes.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfoRequestHeader,
                self.on_route,
                Kind.READ,
                ordinary=frozenset({codes.TOPIC_NOT_EXIST}),
            ),
            RawRoute(codes.GET_BROKER_CLUSTER_INFO, None, self.on_cluster_info, Kind.READ),
            Route(codes.GET_BROKER_MEMBER_GROUP, GetBrokerMemberGroupRequestHeader, self.on_member_group, Kind.READ),
            Route(
                codes.WIPE_WRITE_PERM_OF_BROKER,
                WipeWritePermOfBrokerRequestHeader,
                self.on_wipe_write_perm,
                Kind.SESSION,
                durable=False,
            ),
            Route(
                codes.ADD_WRITE_PERM_OF_BROKER,
                AddWritePermOfBrokerRequestHeader,
                self.on_add_write_perm,
                Kind.SESSION,
                durable=False,
            ),
            Route(
                codes.DELETE_TOPIC_IN_NAMESRV,
                DeleteTopicFromNamesrvRequestHeader,
                self.on_delete_topic,
                Kind.SESSION,
                durable=False,
            ),
            Route(
                codes.REGISTER_TOPIC_IN_NAMESRV,
                RegisterTopicRequestHeader,
                self.on_register_topic,
                Kind.SESSION,
                durable=False,
            ),
        ]

    def on_route(self, channel_id: int, command: Command, header: GetRouteInfoRequestHeader, now: int) -> Command:
        """GET_ROUTEINFO_BY_TOPIC."""
        options = self.settings.options
        if options.need_wait_for_service and now - self.start < options.wait_seconds_for_service * 1000:
            return make_response(command, codes.SYSTEM_ERROR, "name server not ready")
        topic = header.topic
        route = self.route(topic)
        if route is None:
            return make_response(
                command, codes.TOPIC_NOT_EXIST, f"No topic route info in name server for the topic: {topic}"
            )
        ext = command.ext()
        if ext.get(ZONE_MODE, "").lower() == "true" and ext.get(ZONE_NAME, "").strip():
            keep_zone(route, ext[ZONE_NAME])
        if options.order_message_enable:
            route.order_topic_conf = self.kv.get(ORDER_TOPIC_CONFIG, topic)
        return make_response(command, codes.SUCCESS, body=encode_body(route))

    def route(self, topic: str) -> TopicRouteData | None:
        """Return the queues of a topic and their brokers, or None if there is no queue or no broker."""
        queues = self.tables.topics.get(topic)
        if not queues:
            return None
        known = [self.tables.brokers[name] for name in queues if name in self.tables.brokers]
        if not known:
            return None
        brokers = [_copy(broker) for broker in known]
        filters: dict[str, list[str]] = {}
        for broker in brokers:
            for addr in broker.broker_addrs.values():
                servers = self.tables.filter_servers.get(BrokerAddress(broker.cluster, addr))
                if servers:
                    filters[addr] = servers
        if self.settings.options.support_acting_master and not topic.startswith(SYNC_MEMBER_TOPIC_PREFIX):
            for broker in brokers:
                _show_acting_master(broker, queues.get(broker.broker_name))
        return TopicRouteData(
            [queue for name, queue in queues.items() if name in self.tables.brokers], brokers, filters
        )

    def on_cluster_info(self, channel_id: int, command: Command, now: int) -> Command:
        """GET_BROKER_CLUSTER_INFO."""
        clusters = {cluster: list(names) for cluster, names in self.tables.clusters.items()}
        return make_response(command, codes.SUCCESS, body=encode_body(ClusterInfo(self.tables.brokers, clusters)))

    def on_member_group(
        self, channel_id: int, command: Command, header: GetBrokerMemberGroupRequestHeader, now: int
    ) -> Command:
        """GET_BROKER_MEMBER_GROUP (5.x): an unknown broker name has no members."""
        broker = self.tables.brokers.get(header.broker_name)
        addrs = dict(broker.broker_addrs) if broker is not None else {}
        body = GetBrokerMemberGroupResponseBody(BrokerMemberGroup(header.cluster_name, header.broker_name, addrs))
        return make_response(command, codes.SUCCESS, body=encode_body(body))

    def on_wipe_write_perm(
        self, channel_id: int, command: Command, header: WipeWritePermOfBrokerRequestHeader, now: int
    ) -> Command:
        """WIPE_WRITE_PERM_OF_BROKER. Removes the write permission of the broker's topics until it registers with a new
        DataVersion."""
        name = header.broker_name
        count = self.tables.change_perms(name, lambda perm: perm & ~PERM_WRITE)
        return make_response(
            command, codes.SUCCESS, ext=WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count).to_ext()
        )

    def on_add_write_perm(
        self, channel_id: int, command: Command, header: AddWritePermOfBrokerRequestHeader, now: int
    ) -> Command:
        """ADD_WRITE_PERM_OF_BROKER. Sets read and write permission for every topic of this broker."""
        name = header.broker_name
        count = self.tables.change_perms(name, lambda perm: PERM_READ | PERM_WRITE)
        return make_response(
            command, codes.SUCCESS, ext=AddWritePermOfBrokerResponseHeader(add_topic_count=count).to_ext()
        )

    def on_delete_topic(
        self, channel_id: int, command: Command, header: DeleteTopicFromNamesrvRequestHeader, now: int
    ) -> Command:
        """DELETE_TOPIC_IN_NAMESRV, everywhere or in one cluster. Ignores unknown names."""
        names = self.tables.clusters.get(header.cluster_name, {}) if header.cluster_name else None
        self.tables.drop_topic(header.topic, names)
        return make_response(command, codes.SUCCESS)

    def on_register_topic(
        self, channel_id: int, command: Command, header: RegisterTopicRequestHeader, now: int
    ) -> Command:
        """REGISTER_TOPIC_IN_NAMESRV (5.x). Adds queues at known brokers. If one broker is unknown, the request has no
        effect."""
        topic = header.topic
        route = decode_body(command.body, TopicRouteData) if command.body else TopicRouteData()
        queues = {queue.broker_name: queue for queue in route.queue_datas}
        if queues and queues.keys() <= self.tables.brokers.keys():
            most = self.settings.options.max_topic_entries
            more = len(queues.keys() - self.tables.topics.get(topic, {}).keys())
            if len(topic) > MAX_NAME or (more and self.tables.topic_entries + more > most):
                remark = f"the topic has too long a name, or it is more than maxTopicEntries = {most} allows"
                return make_response(command, codes.SYSTEM_ERROR, remark)
            for queue in queues.values():
                self.tables.put_queue(topic, queue)
        return make_response(command, codes.SUCCESS)


def keep_zone(route: TopicRouteData, zone: str) -> None:
    """Remove brokers outside the client's zone, except brokers without a master (ZoneRouteRPCHook.java)."""
    left_out: set[str] = set()
    kept: list[BrokerData] = []
    for broker in route.broker_datas:
        if MASTER_ID not in broker.broker_addrs or (broker.zone_name or "").lower() == zone.lower():
            kept.append(broker)
            continue
        left_out.add(broker.broker_name)
        for addr in broker.broker_addrs.values():
            route.filter_server_table.pop(addr, None)
    route.broker_datas = kept
    route.queue_datas = [queue for queue in route.queue_datas if queue.broker_name not in left_out]


def _copy(broker: BrokerData) -> BrokerData:
    return msgspec.structs.replace(broker, broker_addrs=dict(broker.broker_addrs))


def _show_acting_master(broker: BrokerData, queues: QueueData | None) -> None:
    """If the set has no master and its queues are not writable, list the slave with the smallest id as id 0 (acting
    master)."""
    if not broker.broker_addrs or MASTER_ID in broker.broker_addrs or not broker.enable_acting_master:
        return
    if queues is not None and not queues.perm & PERM_WRITE:
        broker.broker_addrs[MASTER_ID] = broker.broker_addrs.pop(min(broker.broker_addrs))
