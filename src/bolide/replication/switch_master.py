"""A master's side of one connection in controller mode (docs/protocol/ha.md 6, AutoSwitchHAConnection.java)."""

from __future__ import annotations

from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.pacing import Pace, PacedSession
from bolide.replication.switch_frames import HearingReader, Hello, encode_answer, encode_header, encode_named


class SwitchMaster(PacedSession):
    """One slave. `begin` and `end` bound the part of the log that may be sent; `now` is ms.

    Each call gets the epochs as an argument, because they belong to the store. They do not change during a connection:
    a new epoch closes all connections.
    """

    def __init__(self, file_size: int, pace: Pace, now: int, set_name: str = "") -> None:
        """`set_name`: name of this master's set, sent to slaves that request it."""
        super().__init__(pace, heard_at=now, wrote_at=now)
        self._file_size = file_size
        self._reader = HearingReader()
        self.hello: Hello | None = None
        """Handshake of the slave, or None before it arrives."""
        self._set_name = set_name
        self._answered = False
        self._told_end = 0

    @property
    def joined(self) -> Hello | None:
        """Handshake of a slave of this set, or None.

        A slave that requests the name of the set may belong to another one. It then closes without a report, and must
        not replace the connection of the replica with its id.
        """
        return self.hello if self.hello is None or not self.hello.wants_name or self.next_offset >= 0 else None

    def received(self, data: bytes, epochs: Epochs, begin: int, now: int) -> bool:
        """Process bytes from the slave. Return whether it reported or requested bytes to compare; such a request does
        not change `acked`. Raises `NotReplicated`."""
        self._heard_at = now
        heard = self._reader.receive(data)
        if heard.hello is not None and self.hello is None:
            self.hello = heard.hello
        if heard.report is None:
            return False
        if not self._answered or self.hello is None:
            raise NotReplicated("it sends a report before the handshake was complete")
        if self.next_offset < 0:
            self.next_offset = self._start(heard.report, self.hello, epochs, begin)
        elif heard.report > self.next_offset:
            raise NotReplicated(f"it reports the end {heard.report}, but was sent nothing beyond {self.next_offset}")
        if not heard.compares:
            self.acked = heard.report
        return True

    def _start(self, reported: int, hello: Hello, epochs: Epochs, begin: int) -> int:
        end = self._told_end
        if reported > end:
            raise NotReplicated(f"it reports the end {reported}, although it has received that this log ends at {end}")
        if reported == 0:
            start = max(end - end % self._file_size, begin) if hello.from_last_file else begin
        else:
            start = reported
        if start < begin:
            raise NotReplicated(
                f"its log ends at offset {reported}, and this log starts at {begin}: the records between them are "
                "deleted; delete its store, so that it starts with a copy"
            )
        if epochs.covering(start) is None:
            raise NotReplicated(
                f"offset {start} of this log is older than its first epoch, so no slave can replicate from there"
            )
        return start

    def answer(self, epochs: Epochs, end: int, now: int) -> bytes:
        """Return the response to the handshake, or b"" if there is no handshake yet or it was answered."""
        if self._answered or self.hello is None:
            return b""
        self._answered = True
        self._told_end = end
        self._wrote_at = now
        named = encode_named(self._set_name) if self.hello.wants_name and self._set_name else b""
        return named + encode_answer(epochs, end)

    def wanted(self, epochs: Epochs, end: int, now: int) -> int:
        """Return the number of bytes to send now, starting at `next_offset`, all within one file and one epoch."""
        at = self.next_offset
        epoch = epochs.covering(at) if 0 <= at < end else None
        if epoch is None:
            return 0
        stop = min(end, epochs.end_of(epoch.number, end))
        return self._allowed(min(stop - at, self._pace.batch, self._file_size - at % self._file_size), now)

    def transfer(self, epochs: Epochs, size: int, confirm: int, now: int) -> bytes:
        """Return the header of a transfer. The caller appends `size` bytes."""
        header = self._header(epochs, size, confirm, now)
        self._count(size, now)
        return header

    def heartbeat(self, epochs: Epochs, confirm: int, now: int) -> bytes:
        """Return a heartbeat if one is due, else b""."""
        if self.next_offset < 0 or now - self._wrote_at <= self._pace.heartbeat:
            return b""
        return self._header(epochs, 0, confirm, now)

    def news(self, epochs: Epochs, confirm: int, now: int) -> bytes:
        """Return an early heartbeat for a caught-up slave that lacks the current confirm offset."""
        return self._header(epochs, 0, confirm, now) if self.next_offset >= 0 else b""

    def _header(self, epochs: Epochs, size: int, confirm: int, now: int) -> bytes:
        epoch = epochs.covering(self.next_offset)
        if epoch is None:
            raise NotReplicated(f"offset {self.next_offset} of this log no longer belongs to an epoch")
        self._wrote_at = now
        return encode_header(self.next_offset, size, epoch, confirm)
