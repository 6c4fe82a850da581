"""Creates the authorizer of a broker, which the executor calls before each handler."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from bolide.access.gate import RequestGate
from bolide.broker.core.channel import Channel
from bolide.broker.options.composed import BrokerOptions
from bolide.node.access.plain_acl import PlainAcl
from bolide.node.assembly import BrokerParts
from bolide.node.loop.admission import Admission
from bolide.node.machine.node_world import NodeWorld
from bolide.remoting.command import Command


def admission(
    life: AsyncExitStack, world: NodeWorld, log: logging.Logger, options: BrokerOptions, parts: BrokerParts
) -> Callable[[Channel, Command], Command | None] | None:
    """Return the check of the authorizer that the settings select (ACL 1 or ACL 2), or None. Raises `ConfigError` for
    unusable accounts."""
    gate: RequestGate | None
    if options.access.acl_enable:
        files = PlainAcl(world, options.access.acl_folder, log)
        gate = plain = parts.plain_gate(options, files.first())
        files.start(plain)
        life.callback(files.stop)
    else:
        gate = parts.gate(options)
    checks = Admission(parts.services.table, gate)
    return checks.refusal if gate is not None else None
