"""The replication of a running broker, as simulations look at it."""

from __future__ import annotations

from bolide.node.broker import BrokerNode
from bolide.node.replication.controller_mode import ControllerMode
from bolide.node.replication.default_ha_client import DefaultHAClient
from bolide.node.replication.membership import Membership
from bolide.node.replication.slave_links import SlaveLinks
from bolide.node.replication.switching import Switching


def switching_of(node: BrokerNode) -> Switching | None:
    """Return the replication of a broker in controller mode, or None for another broker."""
    side = node._replication.side
    return side if isinstance(side, Switching) else None


def membership_of(node: BrokerNode) -> Membership:
    """Return the membership of a broker in controller mode."""
    assert isinstance(node._replication, ControllerMode)
    return node._replication.membership


def links_of(node: BrokerNode) -> SlaveLinks | None:
    """Return the connections of a master without a controller to its slaves, or None for another broker."""
    side = node._replication.side
    return side if isinstance(side, SlaveLinks) else None


def link_of(node: BrokerNode) -> DefaultHAClient | None:
    """Return the connection of a slave without a controller to its master, or None for another broker."""
    side = node._replication.side
    return side if isinstance(side, DefaultHAClient) else None
