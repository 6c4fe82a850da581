"""One client's connection for services: its identity, and the frames to send at the end of the turn.

Corresponds to RocketMQ's ClientChannelInfo plus the Netty channel. It has no socket, so that services are tested with
only this object.
"""

from __future__ import annotations

from typing import Any, final

from bolide.broker.core.link import NO_LINK, Link
from bolide.remoting.codec import REMOTING, WireCodec
from bolide.remoting.response_bytes import Buffer


@final
class Channel:
    """A TCP connection from a client (or an admin tool) to this process.

    ``remote_host`` is the peer's address as stored in a record: 4 or 16 address bytes and an int32 port.
    ``client_id``, ``language`` and ``version`` are known after the first heartbeat ("" / 0 before).
    """

    def __init__(self, id: int, remote_host: bytes, remote: str, local_port: int = 0) -> None:
        self.id: int = id
        self.remote_host: bytes = remote_host
        self.remote: str = remote
        self.local_port: int = local_port
        self.client_id: str = ""
        self.language: int = 0
        self.version: int = 0
        self.alive: bool = True
        self.codec: WireCodec = REMOTING
        """Encodes the responses and requests to this client."""
        self.frames: list[Buffer] = []
        """Encoded frames, each followed by the parts of its body, until the end of the turn: one write sends all."""
        self.bodies: bool = False
        """Whether `frames` contains such parts."""
        self.queued: int = 0
        """Bytes of `frames`, plus the bytes that the peer had not read at the last write."""
        self.unread: int = 0
        """Bytes that the peer had not read at the last write."""
        self.waits: bool = False
        """Whether requests of this channel wait for another turn or for the peer to read (see the node's outbox)."""
        self.ready: bool = False
        """Whether these requests are scheduled for the next turn."""
        self.dirty: bool = False
        """Whether this channel is in the executor's list of channels to write."""
        self.sends: bool = False
        """Whether simple sends may follow its last read. If so, the next read tries the fast path first."""
        self.link: Link = NO_LINK
        """The transport's connection of this channel; used by the node, never by a service."""
        self.waiters: dict[Any, None] = {}
        """Its held requests, to limit their number and to remove them when the channel closes."""

    def __repr__(self) -> str:
        return f"Channel({self.id}, {self.remote}, client_id={self.client_id!r})"
