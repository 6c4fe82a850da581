"""Installs the authorizer of a broker in front of the handlers of its executor."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from bolide.broker.core.options import BrokerOptions
from bolide.node.access.plain_acl import PlainAcl
from bolide.node.assembly import BrokerParts
from bolide.node.loop.admission import Admission, Guard
from bolide.node.loop.executor import Executor
from bolide.node.machine.node_world import NodeWorld


def admit(
    life: AsyncExitStack,
    world: NodeWorld,
    log: logging.Logger,
    options: BrokerOptions,
    parts: BrokerParts,
    executor: Executor,
) -> None:
    """Install the authorizer that the settings select (ACL 1, ACL 2 or none). Raises `ConfigError` for unusable
    accounts."""
    gate: Guard | None
    if options.access.acl_enable:
        files = PlainAcl(world, options.access.acl_folder, log)
        gate = plain = parts.plain_gate(options, files.first())
        files.start(plain)
        life.callback(files.stop)
    else:
        gate = parts.gate(options)
    admission = Admission(parts.services.table, gate)
    if gate is not None:
        executor.admits = admission.refusal
    executor.use_plain_sends(parts.sends)
