"""Reported state of a broker in controller mode: that of its connections to slaves, or to its master."""

from __future__ import annotations

from bolide.broker.core.replicas import NoReplicas
from bolide.broker.core.service import Service
from bolide.node.replication.auto_switch_ha_client import AutoSwitchHAClient
from bolide.node.replication.slave_links import SlaveLinks
from bolide.remoting.bodies.replication import HAClientRuntimeInfo, HAConnectionRuntimeInfo


class SideState(Service):
    """Implements the part of `broker.core.replicas` that depends on the current role. `Switching` changes the role."""

    def __init__(self) -> None:
        self.failed = ""
        """Reason why this replica could not become the master, or "" if it did not fail."""

    @property
    def side(self) -> SlaveLinks | AutoSwitchHAClient | None:
        """The connections of the current role, or None."""
        return None

    def connections(self, now: int) -> list[HAConnectionRuntimeInfo]:
        """Return the state of a master's slave connections."""
        return (self.side or NoReplicas()).connections(now)

    def lags(self, now: int) -> dict[str, int]:
        """Return the replication lag of each slave in ms."""
        return (self.side or NoReplicas()).lags(now)

    def in_sync(self, now: int) -> int:
        """Return the number of slaves in sync."""
        return (self.side or NoReplicas()).in_sync(now)

    def link(self, now: int) -> HAClientRuntimeInfo:
        """Return the state of a slave's connection to its master."""
        return (self.side or NoReplicas()).link(now)

    def refused(self) -> str:
        """Return why this replica does not replicate from its master, or could not become the master; otherwise ""."""
        return self.failed or (self.side or NoReplicas()).refused()

    def shares_log(self) -> bool:
        """Return whether this log is known to be a prefix of the log of the current master, if there is one."""
        return self.side is not None and self.side.shares_log()

    def lag_ms(self, now: int) -> int:
        """Return the replication lag of this slave in ms."""
        return (self.side or NoReplicas()).lag_ms(now)
