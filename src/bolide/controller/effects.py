"""The effects of a request on a controller besides its answer; the owner of sockets and files carries them out."""

from __future__ import annotations

from typing import NamedTuple


class ClosePeer(NamedTuple):
    """Close a connection: its broker gave no sign of life."""

    channel_id: int
    reason: str


class TellReplica(NamedTuple):
    """Send a broker a request at the address it registered; there is no answer."""

    addr: str
    code: int
    ext: dict[str, str]
    body: bytes


class KeepControllerSettings(NamedTuple):
    """Write these settings, by Java key, into the file the controller is started with; its other lines stay."""

    changes: dict[str, str]


class Elect(NamedTuple):
    """The master of this set is gone: elect another one."""

    name: str


class KeepConfirmed(NamedTuple):
    """Keep the offset that the master of this set reports as confirmed."""

    name: str


Effect = ClosePeer | TellReplica | KeepControllerSettings | Elect | KeepConfirmed
