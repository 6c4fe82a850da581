"""What `slave_links` asks of its sessions, in plain and in auto-switch mode."""

from __future__ import annotations

from typing import Protocol


class MasterSide(Protocol):
    """A master's side of one connection, in either mode (`bolide.replication`)."""

    @property
    def acked(self) -> int:
        """The end that the slave reported last; -1 before the first report."""

    @property
    def next_offset(self) -> int:
        """What is sent next; -1 before the first report."""

    @property
    def last_rate(self) -> int:
        """Bytes of the log sent in the last whole second in which any were."""

    def received(self, data: bytes, begin: int, end: int, now: int) -> bool:
        """Bytes from the slave; True when it reported. Raises `NotReplicated`."""

    def answer(self, end: int, now: int) -> bytes:
        """The answer to a handshake that came; nothing else."""

    def wanted(self, end: int, now: int) -> int:
        """How many bytes from `next_offset` on are to be sent now."""

    def transfer(self, size: int, now: int) -> bytes:
        """The header of a transfer of so many bytes."""

    def heartbeat(self, now: int) -> bytes:
        """The heartbeat if one is due."""

    def news(self, end: int, now: int) -> bytes:
        """What a slave that has all must know at once; nothing else."""

    def silent(self, now: int) -> bool:
        """True when the slave is gone."""

    def due(self) -> int:
        """When `silent` or `heartbeat` is to be asked next."""

    def limited_until(self, now: int) -> int:
        """When more may be sent; -1 when nothing is held back."""


class Holders(Protocol):
    """The machines that hold the log, in either mode (`bolide.replication`)."""

    @property
    def waits(self) -> bool:
        """True when a send waits for slaves."""

    @property
    def acknowledged(self) -> int:
        """Below this enough machines hold every record."""

    def reported(self, key: int, end: int) -> None:
        """The slave on connection `key` holds the log up to `end`."""

    def gone(self, key: int) -> object:
        """That connection ended."""

    def holds_back(self, end: int, now: int) -> int:
        """Up to where the log, which ends at `end`, may be dispatched; NO_CAP when nothing is waited for."""

    def due(self) -> int:
        """When `holds_back` moves by time alone; -1 for never."""

    def late(self, end: int) -> bool:
        """True when a record that ends here is not held by enough machines."""

    def short(self, end: int) -> bool:
        """True when so few machines are in sync that sends are refused."""

    def keeps_up(self, ack: int, end: int) -> bool:
        """True when a slave that holds the log up to `ack` counts as in sync."""

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """True when the slave on connection `key`, which holds the log up to `ack`, is told to be in sync."""

    def count(self, end: int) -> int:
        """How many machines are in sync, this one among them."""
