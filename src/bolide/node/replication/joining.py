"""Replication of one broker: the port and the slaves of a master, or the connection of a slave to its master."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.replication_options import ReplicationOptions
from bolide.broker.core.role import SLAVE, SYNC_MASTER
from bolide.broker.core.service import Service
from bolide.broker.operator.controlled import ControlledService
from bolide.broker.operator.members import BrokerPlace, MembersService
from bolide.broker.tables.topic_config import TopicConfig
from bolide.node.loop.within import within
from bolide.node.machine.node_world import NodeWorld
from bolide.node.ports.addresses import ANY, announced_ip, resolved
from bolide.node.ports.daemon_port import DaemonPort
from bolide.node.replication.broker_identity import BrokerIdentity
from bolide.node.replication.controllers import Controllers
from bolide.node.replication.link_to_master import LoopParts
from bolide.node.replication.log_address import Asker
from bolide.node.replication.log_tls import following_context, serving_context
from bolide.node.replication.master_link import MasterLink
from bolide.node.replication.membership import Membership
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.slave_links import WRITE_HIGH, SlaveLinks
from bolide.node.replication.switching import Switching
from bolide.replication.auto_in_sync import AutoInSync
from bolide.replication.in_sync import InSync
from bolide.replication.pacing import Pace
from bolide.store.message_store import MessageStore
from bolide.store.startup.recovery import RecoveryReport
from bolide.transport.address import split_addresses
from bolide.transport.raw_connection import RawConnection
from bolide.transport.raw_proven import Entering, ProvenPort
from bolide.transport.raw_tls import RawTls, Shaking
from bolide.transport.tls_contexts import RenewedContext

MOST_SAID: Final = 64
SERVED_S: Final = 2.0
"""Maximum time in seconds that a stop waits for slaves that keep up."""


def pace_of(replication: ReplicationOptions) -> Pace:
    """Return the intervals and limits of replication connections."""
    return Pace(
        heartbeat=replication.ha_send_heartbeat_interval,
        silence=replication.ha_housekeeping_interval,
        batch=replication.ha_transfer_batch_size,
        most_in_second=replication.max_ha_transfer_byte_in_second if replication.ha_flow_control_enable else 0,
    )


def log_address(options: BrokerOptions, world: NodeWorld) -> str:
    """Return the address to listen on for slaves. Without TLS it is never 0.0.0.0, because every client that reaches
    the port receives the whole log.

    Raises `ConfigError`.
    """
    if options.replication.ha_tls_enable or options.place.bind_address not in ANY:
        return options.place.bind_address
    if options.place.broker_ip2:
        return resolved("brokerIP2", options.place.broker_ip2, world)
    return announced_ip(options.place.bind_address, options.place.broker_ip1, world)


class Joining:
    """Replication of one broker, from start to stop. The constructor binds the port; `services` creates the rest."""

    def __init__(self, options: BrokerOptions, world: NodeWorld, port: int, log: logging.Logger) -> None:
        """`port`: listen port of the broker. Raises `CannotListen`."""
        self._options = options
        self._world = world
        self._log = log
        self.port = options.replication.ha_listen_port or port + 1
        self._serving = serving_context(options)
        self._following = following_context(options)
        self.contexts = (self._serving, self._following)
        """TLS contexts between the brokers of a set."""
        self._shaking: RawTls | ProvenPort | None = None
        self._said: dict[str, str] = {}
        self._bound: DaemonPort | None = None
        if options.serves_log:
            host = log_address(options, world)
            setting = f"haListenPort = {options.replication.ha_listen_port}, on {host} only without haTlsEnable"
            self._bound = DaemonPort(world, host, self.port, setting)
        self._counted: AutoInSync | None = None
        self._parts: LoopParts | None = None
        self.slaves: SlaveLinks | None = None
        self.master: MasterLink | None = None
        self.switching: Switching | None = None
        self._membership: Membership | None = None

    def services(self, store: MessageStore, parts: LoopParts, report: RecoveryReport) -> list[Service]:
        """Return the services that take part in the event loop turns of this broker. `report`: how the last run ended.

        Raises `StoreDamaged`.
        """
        options, pace = self._options, pace_of(self._options.replication)
        proves = options.access.cluster_authentication_enabled and not options.replication.ha_tls_enable
        credentials = options.access.inner_credentials if proves else None
        self._parts = parts = parts._replace(tls=self._following, credentials=credentials)
        if options.controlled.enable_controller_mode:
            self.switching = Switching(options, self._world, store, pace, parts, report)
            return [self.switching]
        if options.place.broker_role == SLAVE:
            self.master = MasterLink(store, pace, parts)
            return [self.master]
        if self._bound is None:
            return []
        in_sync = self._in_sync(int(store.end_offset))
        self.slaves = SlaveLinks(store, in_sync, pace, parts.effects, parts.another_turn, parts.clock, parts.log)
        return [self.slaves]

    def _in_sync(self, end: int) -> InSync | AutoInSync:
        options = self._options
        if options.acting.enable_slave_acting_master and options.waits_for_slaves:
            auto = options.acting.enable_auto_in_sync_replicas
            self._counted = AutoInSync(
                most=options.replication.in_sync_replicas,
                least=options.controlled.min_in_sync_replicas if auto else options.replication.in_sync_replicas,
                timeout=options.replication.slave_timeout,
                max_gap=options.replication.ha_max_gap_not_in_sync,
                end=end,
                alive=options.acting.total_replicas,
            )
            return self._counted
        return InSync(
            needed=options.replication.in_sync_replicas if options.place.broker_role == SYNC_MASTER else 1,
            timeout=options.replication.slave_timeout,
            max_gap=options.replication.ha_max_gap_not_in_sync,
            end=end,
        )

    def introduce(self, members: MembersService, place: BrokerPlace) -> None:
        """Connect the service for requests of other brokers of the set with this broker's place and log address."""
        members.place = place if self.slaves is not None or self.switching is not None else None
        members.log_told = self.master_told if self.master is not None else None

    def alive(self, count: int) -> None:
        """Set the number of live brokers of the set, as reported by name servers."""
        if self._counted is not None:
            self._counted.alive = count

    @property
    def side(self) -> SlaveLinks | MasterLink | Switching | None:
        """The service that takes part in the turns of this broker, or None."""
        return self.switching or self.slaves or self.master

    def join(
        self,
        node: NodeParts,
        address: str,
        tls: RenewedContext | None,
        failed: Callable[[BaseException], None],
        controlled: ControlledService,
    ) -> None:
        """Under a controller: become a member of the set, at `address` for clients. Raises `ConfigError`."""
        options, switching = self._options, self.switching
        if switching is None:
            return
        switching.around(node)
        path = options.controlled.store_path_broker_identity or f"{switching.root}/brokerIdentity"
        identity = BrokerIdentity(self._world.files, path, options.place.broker_cluster_name, options.place.broker_name)
        addresses = split_addresses(options.controlled.controller_addr)
        controllers = Controllers(addresses, self._world, tls, options.access.inner_credentials)
        self._membership = member = Membership(
            options, address, self._world, identity, controllers, switching, failed, self._log
        )
        switching.look_at_set = member.look_at_set
        switching.log_address = Asker(self._world, tls, options.access.inner_credentials).log_address
        controlled.epochs = lambda: switching.epoch_log.epochs
        controlled.notified = member.notified
        member.start()

    async def first_part(self, seconds: float) -> bool:
        """Wait until the first role from the controller is assumed. Return False after `seconds`."""
        return self._membership is not None and await self._membership.first(seconds)

    async def leave(self) -> None:
        """Stop taking part in the set. The role does not change until the stop."""
        if self._membership is not None:
            await self._membership.stop()

    async def serve(self) -> None:
        """Accept slaves, or replicate from the master. Raises `CannotListen`."""
        if self._bound is not None:
            await self._bound.serve(self._accepted(self._made()))
        if self.master is not None:
            self.master.follow(self._options.replication.ha_master_address)
            self.master.start()

    def _made(self) -> Callable[[], RawConnection]:
        slaves = self.slaves
        if self.switching is not None:
            return self.switching.owner
        assert slaves is not None
        return lambda: RawConnection(slaves, WRITE_HIGH)

    def _accepted(self, made: Callable[[], RawConnection]) -> Callable[[], RawConnection | Shaking | Entering]:
        options = self._options
        if self._serving is not None:
            tls = self._shaking = RawTls(self._serving, made, self._refused)
            return tls.accepted
        if options.access.inner_credentials is None:
            return made
        proven = self._shaking = ProvenPort(
            options.access.cluster_users,
            self._world,
            made,
            self._refused,
            required=options.access.cluster_authentication_enabled,
            seconds=options.replication.ha_housekeeping_interval / 1000,
        )
        return proven.accepted

    def _refused(self, peer: str, why: str) -> None:
        """Log a rejected slave once per reason, because it retries every few seconds."""
        host = peer.rpartition(":")[0]
        if self._said.get(host) != why:
            if len(self._said) >= MOST_SAID:
                self._said.clear()
            self._said[host] = why
            self._log.warning("rejecting the slave %s: %s", peer, why)

    def master_told(self, ha_address: str) -> None:
        """Set the replication address of the master, as returned by a name server. A configured address takes
        precedence, as in RocketMQ 4.9."""
        if self.switching is not None:
            self.switching.master_told(ha_address)
        if self.master is not None and not self._options.replication.ha_master_address and ha_address:
            self.master.follow(ha_address)

    def send_readers_back(self, topics: Iterable[TopicConfig]) -> None:
        """Complete all held pulls, because the master is available again."""
        if self._parts is not None:
            for topic in topics:
                for queue_id in range(topic.read_queue_nums):
                    self._parts.effects.release((topic.topic_name, queue_id))
            self._parts.another_turn()

    def follows(self) -> bool:
        """Return whether this is a slave that replicates from its master."""
        return self.master is not None and self.master.link(0).is_activated

    def followed_by(self, host: str) -> bool:
        """Return whether this is a master with a slave at this host."""
        told = self.slaves.connections(0) if self.slaves is not None else []
        return any(one.slave_ack_offset >= 0 and one.addr.rpartition(":")[0] == host for one in told)

    def close_port(self) -> None:
        """Stop accepting slaves."""
        if self._bound is not None:
            self._bound.close()

    async def stop(self) -> None:
        """Close every connection. Slaves first receive the rest of the log, because one of them may become the
        master."""
        if self.slaves is not None:
            await within(SERVED_S, self.slaves.served)
        if self._shaking is not None:
            self._shaking.stop()
        if self.switching is not None:
            await self.switching.stop()
        if self.slaves is not None:
            self.slaves.stop()
        if self.master is not None:
            await self.master.stop()
