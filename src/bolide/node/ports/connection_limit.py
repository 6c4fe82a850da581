"""Limit of connections of a broker: the setting, and the open files that the store leaves."""

from __future__ import annotations

import logging

from bolide.broker.options.connections import BrokerConnectionOptions
from bolide.node.loop.front import Connections
from bolide.node.machine.node_world import NodeWorld
from bolide.node.machine.open_files import share_of_connections, share_of_store


def connections_of(options: BrokerConnectionOptions, world: NodeWorld, told: logging.Logger) -> Connections:
    """Return the table of connections. Logs a limit that is lower than the setting."""
    table = Connections(max_connections(options, world), options.server_channel_max_idle_time_seconds * 1000)
    if table.limit < options.max_connections:
        told.info(
            "%d connections are allowed, not maxConnections = %d: raise the limit of open files with ulimit -n",
            table.limit,
            options.max_connections,
        )
    return table


def max_connections(options: BrokerConnectionOptions, world: NodeWorld) -> int:
    """Return how many connections may be open without using descriptors of the store."""
    limit = world.max_open_files()
    return share_of_connections(limit, options.max_connections, share_of_store(limit))
