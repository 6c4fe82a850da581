"""Resource use of a broker: disk, memory, open files."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bolide.broker.operator.inspection import MachineUse
from bolide.node.machine.node_world import NodeWorld
from bolide.node.machine.open_files import share_of_store
from bolide.store.options import Resources


def machine_use(world: NodeWorld, root: str, certificate_ends: Callable[[], Mapping[str, int]] = dict) -> MachineUse:
    """Return the resource use for runtime info and /metrics. Thread-safe. `certificate_ends` returns the expiry times
    of the certificates in ms since 1970, by path."""
    total, free = world.disk_space(root)
    return MachineUse(total, free, world.allocated_blocks(), min(certificate_ends().values(), default=0))


def store_resources(world: NodeWorld) -> Resources:
    """Return the resources of the host that the store may use."""
    return Resources(memory_bytes=world.memory_bytes(), max_open_files=share_of_store(world.max_open_files()))
