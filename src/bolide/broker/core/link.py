"""Socket interface of a channel. Implemented by `transport.server.ServerConnection`."""

from __future__ import annotations

from typing import Final, Protocol

from bolide.remoting.response_bytes import Buffer


class Link(Protocol):
    """One connection's socket. Methods do not block."""

    used: bool
    """Whether data was read since it was last set to False."""
    idle_since: int
    """Time (ms) since which no data was read, as of the owner's last check."""

    def write(self, frames: list[Buffer], bodies: bool) -> int:
        """Send these in one write. Return the number of bytes that the peer has not read, 0 if it keeps up."""

    def pause_reading(self) -> None:
        """Stop reading until `resume_reading`."""

    def resume_reading(self) -> None:
        """Resume reading."""

    def close(self) -> None:
        """Close after all written data is sent."""

    def close_idle(self) -> None:
        """Close because the peer is idle. A second call closes immediately."""

    def abort(self) -> None:
        """Close immediately."""


class NoLink:
    """Link of a channel without a socket: writes succeed, and no data arrives."""

    used: bool = False
    idle_since: int = 0

    def write(self, frames: list[Buffer], bodies: bool) -> int:
        """Discard the frames."""
        return 0

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def close_idle(self) -> None:
        """Do nothing."""

    def abort(self) -> None:
        """Do nothing."""


NO_LINK: Final[Link] = NoLink()
