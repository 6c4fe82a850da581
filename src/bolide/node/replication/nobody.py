"""Closes each connection of a slave while this broker is not the master."""

from __future__ import annotations

from bolide.transport.raw_connection import RawConnection


class Nobody:
    """Handler that rejects slaves. Implements `RawOwner`."""

    def connected(self, connection: RawConnection) -> None:
        """Close the connection, so that the slave looks for its master elsewhere."""
        connection.abort()

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Ignore the bytes."""

    def writable(self, connection: RawConnection) -> None:
        """Do nothing."""

    def closed(self, connection: RawConnection) -> None:
        """Do nothing."""
