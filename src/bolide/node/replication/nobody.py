"""Serves the port of slaves while this broker is no master: it closes each connection."""

from __future__ import annotations

from bolide.transport.raw_connection import RawConnection


class Nobody:
    """Implements `RawOwner`."""

    def connected(self, connection: RawConnection) -> None:
        """Close it: the slave looks for its master elsewhere."""
        connection.abort()

    def received(self, connection: RawConnection, data: bytes) -> None:
        """Nothing is read."""

    def writable(self, connection: RawConnection) -> None:
        """Nothing is written."""

    def closed(self, connection: RawConnection) -> None:
        """It is gone."""
