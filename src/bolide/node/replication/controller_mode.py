"""Replication in controller mode, as RocketMQ's AutoSwitchHAService: a controller elects the master of the set."""

from __future__ import annotations

from collections.abc import Callable

from bolide.broker.operator.controlled import ControlledService
from bolide.broker.operator.members import MembersService
from bolide.node.replication.broker_identity import BrokerIdentity
from bolide.node.replication.controllers import Controllers
from bolide.node.replication.default_ha import pace_of
from bolide.node.replication.log_address import Asker
from bolide.node.replication.membership import Membership
from bolide.node.replication.mode import ModeParts, ReplicationMode
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.switching import Switching
from bolide.transport.address import split_addresses


class ControllerMode(ReplicationMode):
    """A replica whose role changes while it runs."""

    def __init__(self, around: ModeParts) -> None:
        """Raises `ConfigError` and `StoreDamaged`."""
        super().__init__(around)
        options, world, loop = around.options, around.world, around.loop
        credentials = options.access.inner_credentials
        self.side = self._switching = switching = Switching(
            options,
            world,
            around.store,
            pace_of(options.replication),
            around.to_master,
            around.report,
            Asker(world, loop.tls, credentials).log_address,
            self._look_at_set,
        )
        path = options.controlled.store_path_broker_identity or f"{switching.root}/brokerIdentity"
        identity = BrokerIdentity(world.files, path, options.place.broker_cluster_name, options.place.broker_name)
        controllers = Controllers(split_addresses(options.controlled.controller_addr), world, loop.tls, credentials)
        self.membership = Membership(
            options, around.place.address, world, identity, controllers, switching, around.failed, loop.log
        )

    def _look_at_set(self) -> None:
        self.membership.look_at_set()

    def members_service(self, notified: Callable[[], None] | None = None) -> MembersService:
        return MembersService(self._around.store, self._around.role, notified=notified, place=self._around.place)

    def _controlled_service(self) -> ControlledService:
        around, log = self._around, self._switching.epoch_log
        return ControlledService(
            around.options, around.store, around.role, lambda: log.epochs, self.membership.notified
        )

    async def serve(self) -> None:
        await self._around.port.serve(self._switching.owner)

    async def join(self, node: NodeParts, seconds: float) -> None:
        """Become a member of the set, and wait until the first role is assumed and registered."""
        self._switching.around(node)
        self.membership.start()
        if await self.membership.first(seconds):
            await node.names.first(seconds)

    async def leave(self) -> None:
        await self.membership.stop()

    def master_told(self, ha_address: str) -> None:
        self._switching.master_told(ha_address)

    async def stop(self) -> None:
        self._around.port.stop()
        await self._switching.stop()
