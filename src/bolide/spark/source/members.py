"""Where the brokers of one name are, as a route says it, and whether one of them is certainly the master.

Only a master can say that messages are gone or that a queue does not exist: a slave may lag, and is told of a new
topic later than its master.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bolide.layout.permissions import PERM_WRITE
from bolide.remoting.bodies.route import BrokerData, QueueData


class BrokerMembers(NamedTuple):
    """The brokers of one name."""

    addresses: tuple[str, ...] = ()
    """In the order in which they are asked."""
    master: str = ""
    """The master's address; "" while none is known for certain."""


def master_alone(address: str) -> BrokerMembers:
    """A master that is asked for everything."""
    return BrokerMembers((address,), address)


def may_act(broker: BrokerData, queues: Iterable[QueueData]) -> bool:
    """Whether the id 0 of a route may be a slave that acts as the master.

    While the master of a set with acting masters is away, name servers clear the write bit of its queues, and show the
    slave with the smallest id as 0 (ha.md 6). A topic that an operator made read-only looks the same.
    """
    own = (data for data in queues if data.broker_name == broker.broker_name)
    return broker.enable_acting_master and not any(data.perm & PERM_WRITE for data in own)
