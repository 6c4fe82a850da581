"""What a broker replicates: as a master its port and its slaves, as a slave its master; nothing where it is alone."""

from __future__ import annotations

import logging
from collections.abc import Callable

from bolide.broker.core.effects import Effects
from bolide.broker.core.options import BrokerOptions
from bolide.broker.core.role import SLAVE, SYNC_MASTER
from bolide.broker.core.service import Service
from bolide.node.process.daemon_port import DaemonPort
from bolide.node.replication.master_link import MasterLink
from bolide.node.replication.slave_links import WRITE_HIGH, SlaveLinks
from bolide.replication.in_sync import InSync
from bolide.replication.master import Pace
from bolide.store.message_store import MessageStore
from bolide.transport.raw_connection import RawConnection
from bolide.world.contract import World


def listens(options: BrokerOptions) -> bool:
    """True when slaves may connect: anyone who reaches the port gets the whole log, so it is asked for."""
    return options.broker_role == SYNC_MASTER or (options.broker_role != SLAVE and options.ha_listen_port > 0)


def pace_of(options: BrokerOptions) -> Pace:
    """How connections are kept."""
    return Pace(
        heartbeat=options.ha_send_heartbeat_interval,
        silence=options.ha_housekeeping_interval,
        batch=options.ha_transfer_batch_size,
        most_in_second=options.max_ha_transfer_byte_in_second if options.ha_flow_control_enable else 0,
    )


class Joining:
    """Of one broker, from its start to its stop. Made, it has its port; `services` makes the rest."""

    def __init__(self, options: BrokerOptions, world: World, port: int, log: logging.Logger) -> None:
        """`port` is the broker's own. Raises `CannotListen`."""
        self._options = options
        self._world = world
        self._log = log
        self.port = options.ha_listen_port or port + 1
        self._bound: DaemonPort | None = None
        if listens(options):
            setting = f"haListenPort = {options.ha_listen_port}"
            self._bound = DaemonPort(world, options.bind_address, self.port, setting)
        self.slaves: SlaveLinks | None = None
        self.master: MasterLink | None = None

    def services(
        self, store: MessageStore, effects: Effects, another_turn: Callable[[], None], clock: Callable[[], int]
    ) -> list[Service]:
        """What takes part in the ticks of this broker."""
        options, pace = self._options, pace_of(self._options)
        if options.broker_role == SLAVE:
            self.master = MasterLink(store, pace, effects, another_turn, clock, self._world, self._log)
            return [self.master]
        if self._bound is None:
            return []
        in_sync = InSync(
            needed=options.in_sync_replicas if options.broker_role == SYNC_MASTER else 1,
            timeout=options.slave_timeout,
            max_gap=options.ha_max_gap_not_in_sync,
            end=int(store.end_offset),
        )
        self.slaves = SlaveLinks(store, in_sync, pace, effects, another_turn, clock, self._log)
        return [self.slaves]

    @property
    def side(self) -> SlaveLinks | MasterLink | None:
        """What takes part in the turns of this broker."""
        return self.slaves or self.master

    async def serve(self) -> None:
        """Accept slaves, or follow the master. Raises `CannotListen`."""
        slaves = self.slaves
        if slaves is not None and self._bound is not None:
            await self._bound.serve(lambda: RawConnection(slaves, WRITE_HIGH))
        if self.master is not None:
            self.master.follow(self._options.ha_master_address)
            self.master.start()

    def master_told(self, ha_address: str) -> None:
        """A name server named the master's address of replication. One that was set beats it, as in RocketMQ 4.9."""
        if self.master is not None and not self._options.ha_master_address and ha_address:
            self.master.follow(ha_address)

    def close_port(self) -> None:
        """Accept no more slaves."""
        if self._bound is not None:
            self._bound.close()

    async def stop(self) -> None:
        """End every connection."""
        if self.slaves is not None:
            self.slaves.stop()
        if self.master is not None:
            await self.master.stop()
