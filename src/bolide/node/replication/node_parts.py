"""The parts of a node that a change of its role affects."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from bolide.broker.core.role import Role
from bolide.broker.tables.topics import TopicTable
from bolide.node.loop.executor import Executor
from bolide.node.loop.services import Services
from bolide.node.loop.turns import Turns
from bolide.node.routes.master_tables import MasterTables
from bolide.node.routes.registrar import Registration


class NodeParts(Struct, frozen=True):
    """The parts that `Switching` changes."""

    role: Role
    topics: TopicTable
    services: Services
    executor: Executor
    turns: Turns
    tables: MasterTables
    names: Registration
    set_progress_back: Callable[[bool, int], object]
    """Moves progress beyond the end of a queue back to it; that of consumers only if the log may have lost some."""
