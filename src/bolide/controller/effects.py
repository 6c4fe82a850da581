"""Side effects of a request on a controller. The node that owns sockets and files applies them."""

from __future__ import annotations

from typing import NamedTuple


class ClosePeer(NamedTuple):
    """Close the connection of a broker that has stopped sending heartbeats."""

    channel_id: int
    reason: str


class TellReplica(NamedTuple):
    """Send a oneway request to a broker at its registered address."""

    addr: str
    code: int
    ext: dict[str, str]
    body: bytes


class KeepControllerSettings(NamedTuple):
    """Write these settings, by Java key, to the settings file of the controller. Other lines remain unchanged."""

    changes: dict[str, str]


class Elect(NamedTuple):
    """Elect a new master of this set."""

    name: str


class KeepConfirmed(NamedTuple):
    """Store the confirm offset that the master of this set reported."""

    name: str


Effect = ClosePeer | TellReplica | KeepControllerSettings | Elect | KeepConfirmed
