"""Registration, heartbeats and removal of brokers: codes 103, 104, 322 and 904, expiry, closed connections.

Follows RouteInfoManager.registerBroker of 5.x. The same address with another id is a promotion, and the old id is
removed. An id of another address with a higher stateVersion is not reassigned: the response is success, and only the
new address is removed from the live brokers. A first registration with exactly one topic is rejected, because it is an
increment to an unknown registration.
"""

from __future__ import annotations

from typing import Final

from bolide.layout.names import MASTER_ID
from bolide.layout.permissions import PERM_WRITE
from bolide.namesrv.effects import CloseChannel, NamesrvEffects, TellBroker
from bolide.namesrv.handler import Routes
from bolide.namesrv.kv import ORDER_TOPIC_CONFIG, KvService
from bolide.namesrv.options import Settings
from bolide.namesrv.routes import ZONE_NAME
from bolide.namesrv.tables import MAX_NAME, BrokerAddress, Live, Tables
from bolide.remoting import codes
from bolide.remoting.bodies import decode_body, encode_body
from bolide.remoting.bodies.route import BrokerData
from bolide.remoting.bodies.topics import TopicConfigAndMappingSerializeWrapper
from bolide.remoting.bodies.versions import DataVersion
from bolide.remoting.command import Command, make_response
from bolide.remoting.headers.namesrv import (
    BrokerHeartbeatRequestHeader,
    NotifyMinBrokerIdChangeRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnRegisterBrokerRequestHeader,
)
from bolide.remoting.register import PartialRegisterBody, RegisterBrokerBody, body_checksum, decode_register_body
from bolide.remoting.request_routes import Kind, Route

SHOWN: Final = 10
"""Maximum number of topic names in one remark."""
MAX_FILTER_SERVERS: Final = 64


class RegistrationService:
    """Applies registrations and heartbeats to `tables`."""

    def __init__(self, tables: Tables, settings: Settings, kv: KvService, effects: NamesrvEffects) -> None:
        self.tables = tables
        self.settings = settings
        self.kv = kv
        self.effects = effects
        self._next_scan: int | None = None

    def routes(self) -> Routes:
        """Return the routes of the served request codes."""
        return [
            Route(codes.REGISTER_BROKER, RegisterBrokerRequestHeader, self.on_register, Kind.SESSION, durable=False),
            Route(
                codes.UNREGISTER_BROKER, UnRegisterBrokerRequestHeader, self.on_unregister, Kind.SESSION, durable=False
            ),
            Route(
                codes.QUERY_DATA_VERSION,
                QueryDataVersionRequestHeader,
                self.on_query_data_version,
                Kind.SESSION,
                durable=False,
            ),
            Route(codes.BROKER_HEARTBEAT, BrokerHeartbeatRequestHeader, self.on_heartbeat, Kind.SESSION, durable=False),
        ]

    def on_register(self, channel_id: int, command: Command, header: RegisterBrokerRequestHeader, now: int) -> Command:
        """REGISTER_BROKER. The response contains the master for a slave, and the order configuration for every
        broker."""
        if header.body_crc32 and header.body_crc32 != body_checksum(command.body):
            return make_response(command, codes.SYSTEM_ERROR, "crc32 not match; send the registration again")
        body = decode_register_body(command.body, bool(header.compressed), command.version)
        refused = sorted(body.refused) if isinstance(body, PartialRegisterBody) else []
        answer = RegisterBrokerResponseHeader()
        if self._keeps_other_address(header, body.topic_config_serialize_wrapper.data_version):
            self.tables.live.pop(BrokerAddress(header.cluster_name, header.broker_addr), None)
        elif self._is_increment_to_nothing(header, body.topic_config_serialize_wrapper, len(refused)):
            return make_response(
                command,
                codes.SYSTEM_ERROR,
                f"register broker failed, {header.broker_name} must register fully first, then single topics",
            )
        elif too_much := self._too_much(header, body):
            return make_response(command, codes.SYSTEM_ERROR, f"register broker failed, {too_much}")
        else:
            self._register(header, body, command.ext().get(ZONE_NAME), channel_id, now)
            if header.broker_id != MASTER_ID:
                self._tell_master(header, answer)
        order = None
        if self.settings.options.return_order_topic_config_to_broker:
            order = self.kv.namespace_body(ORDER_TOPIC_CONFIG)
        remark = f"not taken, their numbers are no ints: {', '.join(refused[:SHOWN])}" if refused else None
        return make_response(command, codes.SUCCESS, remark, ext=answer.to_ext(), body=order or b"")

    def _keeps_other_address(self, header: RegisterBrokerRequestHeader, version: DataVersion) -> bool:
        """Return whether another address with a higher `stateVersion` has this broker id."""
        broker = self.tables.brokers.get(header.broker_name)
        held = broker.broker_addrs.get(header.broker_id) if broker is not None else None
        if held is None or held == header.broker_addr:
            return False
        known = self.tables.data_version(header.cluster_name, held)
        return known is not None and known.state_version > version.state_version

    def _is_increment_to_nothing(
        self, header: RegisterBrokerRequestHeader, wrapper: TopicConfigAndMappingSerializeWrapper, refused: int
    ) -> bool:
        broker = self.tables.brokers.get(header.broker_name)
        known = broker is not None and header.broker_id in broker.broker_addrs
        return not known and len(wrapper.topic_config_table) + refused == 1

    def _too_much(self, header: RegisterBrokerRequestHeader, body: RegisterBrokerBody) -> str:
        """Return why this registration exceeds a limit, or "" if it does not."""
        tables, options = self.tables, self.settings.options
        table = body.topic_config_serialize_wrapper.topic_config_table
        topics = {config.topic_name or key for key, config in table.items()}
        texts = [header.broker_name, header.cluster_name, header.broker_addr, header.ha_server_addr]
        servers = body.filter_server_list or []
        if max(map(len, (*texts, *topics, *servers))) > MAX_NAME or len(servers) > MAX_FILTER_SERVERS:
            return f"it has more than {MAX_FILTER_SERVERS} filter servers, or a name of more than {MAX_NAME} characters"
        new_name = header.broker_name not in tables.clusters.get(header.cluster_name, ())
        new_addr = BrokerAddress(header.cluster_name, header.broker_addr) not in tables.live
        if (new_name and tables.names_listed >= options.max_brokers) or (
            new_addr and len(tables.live) >= options.max_brokers
        ):
            return f"{options.max_brokers} brokers are registered, as many as maxBrokers allows"
        if header.broker_name not in tables.brokers:
            tables.comes_back(header.broker_name)
        known = tables.topics_of(header.broker_name)
        more = sum(topic not in known for topic in topics)
        if more and tables.topic_entries + more > options.max_topic_entries:
            return (
                f"its {more} new topics and the {tables.topic_entries} of all brokers are more than maxTopicEntries = "
                f"{options.max_topic_entries} allows"
            )
        return ""

    def _register(
        self, header: RegisterBrokerRequestHeader, body: RegisterBrokerBody, zone: str | None, channel_id: int, now: int
    ) -> None:
        tables = self.tables
        address = BrokerAddress(header.cluster_name, header.broker_addr)
        before = tables.live.get(address)
        if before is not None and before.broker_name != header.broker_name:
            # an address belongs to one broker: without this, the old name would never be removed
            self._remove(before.broker_name, address)
        tables.list_broker(header.cluster_name, header.broker_name)
        broker = tables.brokers.get(header.broker_name)
        if broker is None:
            broker = tables.brokers[header.broker_name] = BrokerData(header.cluster_name, header.broker_name)
        broker.enable_acting_master = bool(header.enable_acting_master)
        broker.zone_name = zone
        new_least = bool(broker.broker_addrs) and header.broker_id < min(broker.broker_addrs)
        for number in [
            n for n, addr in broker.broker_addrs.items() if addr == header.broker_addr and n != header.broker_id
        ]:
            del broker.broker_addrs[number]  # a slave became master: keep one record per address
        first = not broker.broker_addrs.get(header.broker_id)
        broker.broker_addrs[header.broker_id] = header.broker_addr
        wrapper = body.topic_config_serialize_wrapper
        master = header.broker_id == MASTER_ID
        prime_slave = header.enable_acting_master is not None and header.broker_id == min(broker.broker_addrs)
        if master or prime_slave:
            self._take_topics(broker, address, wrapper, first, wipe=not master and broker.enable_acting_master)
        tables.live[address] = Live(
            header.broker_name,
            now,
            header.heartbeat_timeout_millis or self.settings.options.broker_channel_expired_time,
            wrapper.data_version,
            channel_id,
            header.ha_server_addr,
        )
        if body.filter_server_list:
            tables.filter_servers[address] = body.filter_server_list
        else:
            tables.filter_servers.pop(address, None)
        if new_least:
            self._tell_least(broker, ha_addr=header.ha_server_addr)
        if self._next_scan is None:
            self._next_scan = now + self.settings.options.scan_not_active_broker_interval

    def _remove(self, broker_name: str, address: BrokerAddress) -> None:
        """Remove an address. Notify the rest of its set if the smallest broker id changed."""
        broker = self.tables.brokers.get(broker_name)
        least = broker is not None and broker.broker_addrs[min(broker.broker_addrs)] == address.addr
        self.tables.remove(broker_name, address)
        if broker is not None and least and broker.broker_addrs and broker.enable_acting_master:
            self._tell_least(broker, gone=address.addr)

    def _tell_least(self, broker: BrokerData, gone: str | None = None, ha_addr: str | None = None) -> None:
        """Send NOTIFY_MIN_BROKER_ID_CHANGE to the remaining brokers of a set or, if a broker with a smaller id was
        added, to the others."""
        if not self.settings.options.notify_min_broker_id_changed:
            return
        least = min(broker.broker_addrs)
        header = NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=least,
            min_broker_addr=broker.broker_addrs[least],
            offline_broker_addr=gone,
            ha_broker_addr=ha_addr,
        )
        for number, addr in broker.broker_addrs.items():
            if gone is not None or len(broker.broker_addrs) == 1 or number != least:
                self.effects.add(TellBroker(addr, codes.NOTIFY_MIN_BROKER_ID_CHANGE, header.to_ext()))

    def _take_topics(
        self,
        broker: BrokerData,
        address: BrokerAddress,
        wrapper: TopicConfigAndMappingSerializeWrapper,
        first: bool,
        wipe: bool,
    ) -> None:
        """Apply the topics of a registration. Without a new DataVersion, add only unknown topics."""
        name = broker.broker_name
        changed = first or self.tables.data_version(*address) != wrapper.data_version
        named = {config.topic_name or key: config for key, config in wrapper.topic_config_table.items()}
        if self.settings.options.delete_topic_with_broker_registration and not wrapper.topic_queue_mapping_info_map:
            for topic in [topic for topic in self.tables.topics_of(name) if topic not in named]:
                self.tables.drop_topic(topic, [name])
        for topic, config in named.items():
            if changed or name not in self.tables.topics.get(topic, ()):
                config.topic_name = topic
                self.tables.put_queues(name, config, config.perm & ~PERM_WRITE if wipe else config.perm)

    def _tell_master(self, header: RegisterBrokerRequestHeader, answer: RegisterBrokerResponseHeader) -> None:
        master = self.tables.brokers[header.broker_name].broker_addrs.get(MASTER_ID)
        live = self.tables.live.get(BrokerAddress(header.cluster_name, master)) if master else None
        if live is not None:
            answer.master_addr = master
            answer.ha_server_addr = live.ha_server_addr

    def on_unregister(
        self, channel_id: int, command: Command, header: UnRegisterBrokerRequestHeader, now: int
    ) -> Command:
        """UNREGISTER_BROKER. While the connection that registered the address is open, only that connection may
        unregister it. A broker has one connection to a name server, as in RocketMQ."""
        addr = header.broker_addr
        if any(live.channel_id != channel_id for known, live in self.tables.live.items() if known.addr == addr):
            remark = f"unregister broker failed, {addr} is registered over another connection, which is open"
            return make_response(command, codes.NO_PERMISSION, remark)
        address = BrokerAddress(header.cluster_name, addr)
        self._remove(header.broker_name, address)
        self.tables.drop_some()
        return make_response(command, codes.SUCCESS)

    def on_query_data_version(
        self, channel_id: int, command: Command, header: QueryDataVersionRequestHeader, now: int
    ) -> Command:
        """QUERY_DATA_VERSION. Returns whether the broker has a new version to register, and is treated as a
        heartbeat."""
        theirs = decode_body(command.body, DataVersion)
        ours = self.tables.data_version(header.cluster_name, header.broker_addr)
        self.tables.refresh(header.cluster_name, header.broker_addr, now)
        answer = QueryDataVersionResponseHeader(changed=ours is None or ours != theirs)
        return make_response(
            command, codes.SUCCESS, ext=answer.to_ext(), body=encode_body(ours) if ours is not None else b""
        )

    def on_heartbeat(
        self, channel_id: int, command: Command, header: BrokerHeartbeatRequestHeader, now: int
    ) -> Command:
        """BROKER_HEARTBEAT (5.x). Only extends the timeout of the broker."""
        self.tables.refresh(header.cluster_name, header.broker_addr, now)
        return make_response(command, codes.SUCCESS)

    def channel_closed(self, channel_id: int) -> None:
        """Called when a connection closes: remove brokers registered on it, unless they have re-registered on another
        connection."""
        for address, live in list(self.tables.live.items()):
            if live.channel_id == channel_id:
                self._remove(live.broker_name, address)
        self.tables.drop_some()

    def due(self) -> int | None:
        """Return when to call `tick` next, ms since the epoch, or None if no broker is registered."""
        return 0 if self.tables.leaving else self._next_scan

    def tick(self, now: int) -> None:
        """Remove expired brokers and request to close their connections. Remove more topics of unregistered brokers."""
        self._scan(now)
        self.tables.drop_some()

    def _scan(self, now: int) -> None:
        if self._next_scan is None or now < self._next_scan:
            return
        for address, live in list(self.tables.live.items()):
            if live.expired(now):
                self.effects.add(
                    CloseChannel(live.channel_id, f"broker {address.addr} gave no sign of life for {live.timeout} ms")
                )
                self._remove(live.broker_name, address)
        waits = self.settings.options.scan_not_active_broker_interval
        self._next_scan = now + waits if self.tables.live else None
