"""The monitoring pages of a broker: its metrics, and whether it is ready."""

from __future__ import annotations

from bolide.monitor.families import Families
from bolide.node.loop.clock import Clock
from bolide.node.machine.machine_use import machine_use
from bolide.node.machine.node_world import NodeWorld
from bolide.node.metrics.broker_figures import BrokerFigures, BrokerSource
from bolide.node.metrics.monitoring import Monitoring
from bolide.node.routes.registrar import Registration
from bolide.store.message_store import MessageStore


async def serve_broker(monitoring: Monitoring, source: BrokerSource, world: NodeWorld, clock: Clock) -> None:
    """Start serving /metrics and the health pages of this broker. Raises `CannotListen`."""
    options, store, role = source.options, source.store, source.parts.role

    def collect(families: Families) -> None:
        BrokerFigures(source, machine_use(world, store.root)).add_all(families, clock.now())

    def troubles() -> list[str]:
        return broker_troubles(store, source.registration, follows=not role.may_write)

    labels = {"cluster": options.place.broker_cluster_name, "node_type": "broker", "node_id": options.place.broker_name}
    await monitoring.serve(labels, collect, troubles)


def broker_troubles(store: MessageStore, registration: Registration | None, follows: bool) -> list[str]:
    """Return one sentence per reason why the broker is not ready, or an empty list. Thread-safe."""
    troubles: list[str] = []
    if store.failure:
        troubles.append(f"the store has failed: {store.failure}")
    elif not store.writable() and not follows:
        troubles.append(f"the store rejects messages: {store.flags.describe()}")
    if not store.readable():
        troubles.append("the store cannot be read")
    if registration is not None and registration.known_by == 0:
        troubles.append(f"registered with none of the {registration.servers} configured name servers")
    return troubles
