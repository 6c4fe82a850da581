"""How many connections a broker takes: what its settings allow, and what the store leaves of the open files."""

from __future__ import annotations

import logging

from bolide.broker.core.connection_options import BrokerConnectionOptions
from bolide.node.loop.front import Connections
from bolide.node.machine.node_world import NodeWorld
from bolide.node.machine.open_files import share_of_connections, share_of_store


def connections_of(options: BrokerConnectionOptions, world: NodeWorld, told: logging.Logger) -> Connections:
    """The table of connections; logs when it holds fewer than the settings allow."""
    table = Connections(max_connections(options, world), options.server_channel_max_idle_time_seconds * 1000)
    if table.limit < options.max_connections:
        told.info(
            "%d connections are allowed, not maxConnections = %d: raise the limit of open files with ulimit -n",
            table.limit,
            options.max_connections,
        )
    return table


def max_connections(options: BrokerConnectionOptions, world: NodeWorld) -> int:
    """Connections that may be open without taking a descriptor from the store."""
    limit = world.max_open_files()
    return share_of_connections(limit, options.max_connections, share_of_store(limit))
