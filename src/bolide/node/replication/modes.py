"""Chooses the replication mode of a broker."""

from __future__ import annotations

from bolide.node.replication.acting import ActingMode
from bolide.node.replication.controller_mode import ControllerMode
from bolide.node.replication.default_ha import default_mode
from bolide.node.replication.mode import ModeParts, ReplicationMode


def replication_mode(around: ModeParts) -> ReplicationMode:
    """Return the mode that the settings select. Raises `ConfigError` and `StoreDamaged`."""
    if around.options.controlled.enable_controller_mode:
        return ControllerMode(around)
    if around.options.acting.enable_slave_acting_master:
        return ActingMode(around)
    return default_mode(around)
