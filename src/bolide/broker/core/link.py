"""What the transport's connection gives the channel above it; `transport.server.ServerConnection` is the real one."""

from __future__ import annotations

from typing import Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | memoryview
"""What a socket can be given to write."""


class Link(Protocol):
    """One connection's socket. All methods return at once."""

    used: bool
    """True when something was read since it was last set to False."""
    idle_since: int
    """Since when (ms) nothing was read, as far as its owner has looked."""

    def write(self, frames: list[Buffer], bodies: bool) -> int:
        """Send these in one write; the bytes the peer leaves unread, 0 while it keeps up."""

    def pause_reading(self) -> None:
        """Read nothing until `resume_reading`."""

    def resume_reading(self) -> None:
        """Read again."""

    def close(self) -> None:
        """Close once what was written is sent."""

    def abort(self) -> None:
        """Close at once."""


class NoLink:
    """Of a channel without a socket: everything is read at once, and nothing comes."""

    used: bool = False
    idle_since: int = 0

    def write(self, frames: list[Buffer], bodies: bool) -> int:
        """Drop them."""
        return 0

    def pause_reading(self) -> None:
        """Nothing is read."""

    def resume_reading(self) -> None:
        """Nothing is read."""

    def close(self) -> None:
        """Nothing is open."""

    def abort(self) -> None:
        """Nothing is open."""


NO_LINK: Final[Link] = NoLink()
