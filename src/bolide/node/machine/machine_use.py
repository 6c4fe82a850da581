"""What a broker has of its machine: disk, memory, open files."""

from __future__ import annotations

from bolide.broker.operator.inspection import MachineUse
from bolide.node.machine.node_world import NodeWorld
from bolide.node.machine.open_files import share_of_store
from bolide.store.options import Resources


def machine_use(world: NodeWorld, root: str) -> MachineUse:
    """What runtime info and /metrics tell of the machine. On any thread."""
    total, free = world.disk_space(root)
    return MachineUse(total, free, world.allocated_blocks())


def store_resources(world: NodeWorld) -> Resources:
    """What the machine gives the store."""
    return Resources(memory_bytes=world.memory_bytes(), max_open_files=share_of_store(world.max_open_files()))
