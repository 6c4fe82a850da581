"""Addresses of a broker set according to a route, and whether one of them is certainly the master.

Only a master's response proves that messages have expired or that a queue does not exist: a slave may lag, and copies a
new topic from its master later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bolide.layout.permissions import PERM_WRITE
from bolide.remoting.bodies.route import BrokerData, QueueData


class BrokerMembers(NamedTuple):
    """The brokers of a set."""

    addresses: tuple[str, ...] = ()
    """Addresses in the order in which to try them."""
    master: str = ""
    """The master's address, or "" if it is uncertain."""


def master_alone(address: str) -> BrokerMembers:
    """Return the members of a set whose replicas must not be used."""
    return BrokerMembers((address,), address)


def may_act(broker: BrokerData, queues: Iterable[QueueData]) -> bool:
    """Return whether the broker with id 0 in a route may be an acting master.

    While the master of a set with acting masters is down, name servers clear the write bit of its queues, and show the
    slave with the smallest id as 0 (ha.md 6). A topic that an operator made read-only looks the same.
    """
    own = (data for data in queues if data.broker_name == broker.broker_name)
    return broker.enable_acting_master and not any(data.perm & PERM_WRITE for data in own)
