"""Base class of the replication modes, and the mode of a standalone broker. `node.replication.modes` chooses the
mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from bolide.broker.core.effects import SendAway
from bolide.broker.core.role import Role
from bolide.broker.core.service import Service
from bolide.broker.operator.controlled import ControlledService
from bolide.broker.operator.members import MembersService
from bolide.broker.options.composed import BrokerOptions
from bolide.node.machine.node_world import NodeWorld
from bolide.node.replication.default_ha_client import DefaultHAClient
from bolide.node.replication.ha_client import LoopParts
from bolide.node.replication.node_parts import NodeParts
from bolide.node.replication.slave_links import SlaveLinks
from bolide.node.replication.slave_port import SlavePort
from bolide.node.replication.switching import Switching
from bolide.node.routes.registrar import Place
from bolide.store.message_store import MessageStore
from bolide.store.startup.recovery import RecoveryReport

Side: TypeAlias = SlaveLinks | DefaultHAClient | Switching


class ModeParts(Struct, frozen=True):
    """The parts of a broker that exist before its services."""

    options: BrokerOptions
    world: NodeWorld
    store: MessageStore
    report: RecoveryReport
    """Result of the recovery: shows whether the last run ended normally."""
    role: Role
    place: Place
    port: SlavePort
    loop: LoopParts
    """`tls`: TLS context for connections to name servers, controllers and other brokers."""
    failed: Callable[[BaseException], None]
    """Stops the broker because of this error."""

    @property
    def to_master(self) -> LoopParts:
        """`loop` with the TLS context and the credentials for the connection to a master's log."""
        options = self.options
        proves = options.access.cluster_authentication_enabled and not options.replication.ha_tls_enable
        credentials = options.access.inner_credentials if proves else None
        return self.loop._replace(tls=self.port.following, credentials=credentials, set_name=options.set_name)


class ReplicationMode:
    """Replication and registration of one broker. This class is the mode of a broker without slaves and master; the
    other modes are subclasses."""

    side: Side | None = None
    """The service that the executor calls in each turn, or None."""
    send_away: SendAway | None = None
    """Sends a message to another broker set, or None if this broker never acts as master."""

    def __init__(self, around: ModeParts) -> None:
        self._around = around
        self.role = around.role
        self.place = around.place

    def services(self) -> list[Service]:
        """Return the services of this mode."""
        side = [self.side] if self.side is not None else []
        return [*side, self.members_service(), self._controlled_service()]

    def members_service(self, notified: Callable[[], None] | None = None) -> MembersService:
        """Return the service for requests of other brokers of the set. `notified` is called when members change."""
        return MembersService(self._around.store, self._around.role, notified=notified)

    def _controlled_service(self) -> ControlledService:
        return ControlledService(self._around.options, self._around.store, self._around.role)

    async def serve(self) -> None:
        """Accept slaves, or replicate from the master. Raises `CannotListen`."""

    async def join(self, node: NodeParts, seconds: float) -> None:
        """Register with name servers, and wait for that for at most `seconds`."""
        node.names.start()
        await node.names.first(seconds)

    async def leave(self) -> None:
        """Leave the set. The role does not change until the stop."""

    def master_told(self, ha_address: str) -> None:
        """Set the address at which the master serves its log, as returned by a name server."""

    def follows(self) -> bool:
        """Return whether this is a slave that replicates from its master."""
        return False

    def followed_by(self, host: str) -> bool:
        """Return whether this is a master, and a slave at this host holds a part of its log."""
        return False

    def alive(self, count: int) -> None:
        """Set the number of live brokers of the set, as reported by name servers."""

    async def stop(self) -> None:
        """Close every connection."""
