"""One client's connection, as the services see it: who it is, and the frames that leave it at the end of the turn.

The counterpart of RocketMQ's ClientChannelInfo plus the Netty channel; without a socket, so that services are tested
with nothing but this object.
"""

from __future__ import annotations

from typing import Any, final

from bolide.broker.core.link import NO_LINK, Buffer, Link


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
        self.frames: list[Buffer] = []
        """Encoded frames, each followed by the parts of its body, until the end of the turn: one write sends all."""
        self.bodies: bool = False
        """True when there are such pieces among them."""
        self.queued: int = 0
        """Bytes of `frames`, and those the peer had left unread when it was last written to."""
        self.unread: int = 0
        """Those the peer had left unread when it was last written to."""
        self.waits: bool = False
        """True while requests of this channel wait for another turn, or for the peer to read; see the node's outbox."""
        self.ready: bool = False
        """True while they are scheduled for the next turn."""
        self.dirty: bool = False
        """True while this channel is in the executor's list of channels to write."""
        self.sends: bool = False
        """True when its last read may have been followed by plain sends: then they are looked for first."""
        self.link: Link = NO_LINK
        """The transport's connection of this channel; used by the node, never by a service."""
        self.held: int = 0
        """Pull requests of this channel now in the hold table (limited, so a peer cannot park without end)."""
        self.pulls: dict[Any, None] = {}
        """Those requests: what is to be forgotten when the channel closes."""

    def __repr__(self) -> str:
        return f"Channel({self.id}, {self.remote}, client_id={self.client_id!r})"
