"""Replication without a controller, as RocketMQ's DefaultHAService: the role of a broker is its setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bolide.broker.core.role import SYNC_MASTER
from bolide.broker.operator.members import MembersService
from bolide.broker.options.replication import ReplicationOptions
from bolide.node.loop.within import within
from bolide.node.replication.default_ha_client import DefaultHAClient
from bolide.node.replication.mode import ModeParts, ReplicationMode
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.slave_links import WRITE_HIGH, LinkHooks, SlaveLinks
from bolide.replication.auto_in_sync import AutoInSync
from bolide.replication.in_sync import InSync
from bolide.replication.pacing import Pace
from bolide.transport.raw_connection import RawConnection

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


class MasterMode(ReplicationMode):
    """A master that serves its log to slaves."""

    def __init__(self, around: ModeParts, short_told: Callable[[bool], None] | None = None) -> None:
        """`short_told` is called with True when too few brokers are in sync for sends, and with False when enough are
        again."""
        super().__init__(around)
        self._in_sync = self._counted()
        loop = around.loop
        self.side = self._slaves = SlaveLinks(
            around.store, self._in_sync, pace_of(around.options.replication), loop.effects, loop.another_turn,
            loop.clock, loop.log, LinkHooks(short_told=short_told),
        )  # fmt: skip

    def _counted(self) -> InSync | AutoInSync:
        options, end = self._around.options, int(self._around.store.end_offset)
        if options.acting.enable_slave_acting_master and options.waits_for_slaves:
            auto = options.acting.enable_auto_in_sync_replicas
            return AutoInSync(
                most=options.replication.in_sync_replicas,
                least=options.controlled.min_in_sync_replicas if auto else options.replication.in_sync_replicas,
                timeout=options.replication.slave_timeout,
                max_gap=options.replication.ha_max_gap_not_in_sync,
                end=end,
                alive=options.acting.total_replicas,
            )
        return InSync(
            needed=options.replication.in_sync_replicas if options.place.broker_role == SYNC_MASTER else 1,
            timeout=options.replication.slave_timeout,
            max_gap=options.replication.ha_max_gap_not_in_sync,
            end=end,
        )

    def members_service(self, notified: Callable[[], None] | None = None) -> MembersService:
        around = self._around
        place = around.place if around.options.registration.namesrv_addr else None
        return MembersService(around.store, around.role, notified=notified, place=place)

    async def serve(self) -> None:
        await self._around.port.serve(lambda: RawConnection(self._slaves, WRITE_HIGH))

    def followed_by(self, host: str) -> bool:
        return self._slaves.followed_by(host)

    def alive(self, count: int) -> None:
        if isinstance(self._in_sync, AutoInSync):
            self._in_sync.alive = count

    async def stop(self) -> None:
        """Close every connection. Slaves first receive the rest of the log, because one of them may become the
        master."""
        await within(SERVED_S, self._slaves.served)
        self._around.port.stop()
        self._slaves.stop()


class SlaveMode(ReplicationMode):
    """A slave, whose role does not change."""

    def __init__(self, around: ModeParts) -> None:
        super().__init__(around)
        self.side = self._link = DefaultHAClient(around.store, pace_of(around.options.replication), around.to_master)

    def members_service(self, notified: Callable[[], None] | None = None) -> MembersService:
        around = self._around
        told = self.master_told if around.options.registration.namesrv_addr else None
        return MembersService(around.store, around.role, notified=notified, log_told=told)

    async def serve(self) -> None:
        self.master_told(self._around.options.replication.ha_master_address)
        self._link.start()

    async def join(self, node: NodeParts, seconds: float) -> None:
        node.tables.start()
        await super().join(node, seconds)

    def master_told(self, ha_address: str) -> None:
        """Set the address at which the master serves its log. A configured address takes precedence, as in RocketMQ
        4.9."""
        address = self._around.options.replication.ha_master_address or ha_address
        if address:
            self._link.follow(address)

    def follows(self) -> bool:
        return self._link.link(0).is_activated

    async def stop(self) -> None:
        await self._link.stop()


def default_mode(around: ModeParts, short_told: Callable[[bool], None] | None = None) -> ReplicationMode:
    """Return the mode of a broker whose role is its setting. `short_told`: see `MasterMode`."""
    if around.options.is_slave:
        return SlaveMode(around)
    return MasterMode(around, short_told) if around.options.serves_log else ReplicationMode(around)
