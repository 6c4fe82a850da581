"""The monitoring pages of a broker: its figures, and whether it is ready."""

from __future__ import annotations

from bolide.monitor.families import Families
from bolide.node.loop.clock import Clock
from bolide.node.metrics.broker_figures import BrokerFigures, BrokerSource
from bolide.node.metrics.monitoring import Monitoring
from bolide.node.metrics.readiness import broker_troubles
from bolide.node.process.machine import machine_use
from bolide.node.process.node_world import NodeWorld


async def serve_broker(monitoring: Monitoring, source: BrokerSource, world: NodeWorld, clock: Clock) -> None:
    """PageAnswer for this broker from here on. Raises `CannotListen`."""
    options, store, role = source.options, source.store, source.parts.role

    def collect(families: Families) -> None:
        BrokerFigures(source, machine_use(world, store.root)).add_all(families, clock.now())

    def troubles() -> list[str]:
        return broker_troubles(store, source.registration, follows=not role.may_write)

    labels = {"cluster": options.broker_cluster_name, "node_type": "broker", "node_id": options.broker_name}
    await monitoring.serve(labels, collect, troubles)
