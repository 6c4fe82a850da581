"""Interfaces of the sessions and acknowledgements that `slave_links` uses, for both replication modes."""

from __future__ import annotations

from typing import Protocol


class MasterSide(Protocol):
    """A master's side of one connection, in either mode (`bolide.replication`)."""

    @property
    def acked(self) -> int:
        """End offset that the slave reported last, or -1 before the first report."""

    @property
    def next_offset(self) -> int:
        """Offset of the next byte to send, or -1 before the first report."""

    @property
    def last_rate(self) -> int:
        """Bytes of the log sent in the last complete second with a transfer."""

    def received(self, data: bytes, begin: int, end: int, now: int) -> bool:
        """Process bytes from the slave. Return whether it reported. Raises `NotReplicated`."""

    def answer(self, end: int, now: int) -> bytes:
        """Return the response to a received handshake, else b""."""

    def wanted(self, end: int, now: int) -> int:
        """Return the number of bytes to send now, starting at `next_offset`."""

    def transfer(self, size: int, now: int) -> bytes:
        """Return the header of a transfer of `size` bytes."""

    def heartbeat(self, now: int) -> bytes:
        """Return a heartbeat if one is due, else b""."""

    def news(self, end: int, now: int) -> bytes:
        """Return a heartbeat to send immediately to a caught-up slave, or b"" if the confirm offset has not moved."""

    def silent(self, now: int) -> bool:
        """Return whether the slave has been idle for too long and is considered lost."""

    def due(self) -> int:
        """Return when to call `silent` or `heartbeat` next."""

    def limited_until(self, now: int) -> int:
        """Return when the rate limit allows more bytes, or -1 if it allows some now."""


class Holders(Protocol):
    """Acknowledgements of the slaves, in either mode (`bolide.replication`)."""

    @property
    def waits(self) -> bool:
        """Whether sends may wait for slaves."""

    @property
    def acknowledged(self) -> int:
        """Offset below which enough brokers hold every record."""

    def claimed(self, key: int, end: int) -> None:
        """Record that the slave on connection `key` has a log up to `end`, which may differ from this log."""

    def reported(self, key: int, end: int) -> None:
        """Record that the slave on connection `key` holds this log up to `end`."""

    def gone(self, key: int) -> object:
        """Called when a connection closes."""

    def holds_back(self, end: int, now: int) -> int:
        """Return the offset up to which the log may be dispatched, or NO_CAP if sends do not wait. `end`: end of the
        log."""

    def due(self) -> int:
        """Return when `holds_back` may rise only because time passes, or -1 if never."""

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is not on enough brokers."""

    def short(self, end: int) -> bool:
        """Return whether too few brokers are in sync, so that sends are rejected."""

    def keeps_up(self, ack: int, end: int) -> bool:
        """Return whether a slave with this acknowledged offset keeps up."""

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """Return whether to report the slave on connection `key` as in sync. `ack`: its acknowledged offset."""

    def count(self, end: int) -> int:
        """Return the number of brokers in sync, including this one."""
