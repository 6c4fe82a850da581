"""Parts of a node that are created with or after its services, and that a change of its role affects."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from bolide.broker.core.role import Role
from bolide.broker.operator.following import Following
from bolide.broker.tables.topics import TopicTable
from bolide.node.loop.executor import Executor
from bolide.node.loop.services import Services
from bolide.node.loop.turns import Turns
from bolide.node.routes.master_tables import MasterTables
from bolide.node.routes.registrar import Registration


class NodeParts(Struct, frozen=True):
    """The parts that a replication mode uses and changes after it has joined its set."""

    role: Role
    topics: TopicTable
    services: Services
    executor: Executor
    turns: Turns
    tables: MasterTables
    """Copies the master's tables, once started."""
    names: Registration
    following: Following
    work_changed: Callable[[int], None]
    """Called with the time when background work starts, stops, or sends its messages to other sets."""
    set_progress_back: Callable[[int], int]
    """Clamps progress to the ends of queues, and returns the number of changed consumer offsets. Call it with the time,
    before this broker becomes the master. Raises `FileFailed`."""
