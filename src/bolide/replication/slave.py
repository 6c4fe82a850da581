"""A slave's side of its connection to the master (docs/protocol/ha.md 1, DefaultHAClient.java).

Java follows whatever log it is given. Here the bytes before the own end are asked for once more and compared. A log
with another tail is refused with the offset, before a byte is appended. A master of any release sends what it is asked.
"""

from __future__ import annotations

from typing import Final

from bolide.replication.errors import NotReplicated
from bolide.replication.frames import Piece, TransferReader, encode_report
from bolide.replication.pacing import Pace

NOTHING: Final = Piece(0, b"")


def compare_from(begin: int, end: int, most: int, file_size: int) -> int:
    """Where to begin to compare a log that reaches from `begin` to `end`: `most` bytes before its end, in the file of
    its last byte, and not at 0, with which an empty slave asks for the newest file."""
    if end <= 0:
        return 0
    in_file = (end - 1) - (end - 1) % file_size
    return max(end - most, in_file, begin, 1)


def first_difference(own: bytes, theirs: bytes) -> int:
    """Return the index of the first byte of `own` that `theirs`, which is at least as long, does not have; else -1."""
    if theirs[: len(own)] == own:
        return -1
    return next(i for i in range(len(own)) if own[i] != theirs[i])


def check_first(offset: int, file_size: int) -> None:
    """Raise `NotReplicated` if `offset`, the first that a master sends to an empty log, is not the start of a file."""
    if offset % file_size != 0:
        raise NotReplicated(
            f"it starts at offset {offset}, which is not the start of a file with mappedFileSizeCommitLog = "
            f"{file_size} bytes: set the master's size"
        )


class SlaveSession:
    """One connection. `tail` are the own bytes from `compare_from` to the end of the log, `now` is ms."""

    def __init__(self, end: int, tail: bytes, file_size: int, pace: Pace, now: int) -> None:
        self._file_size = file_size
        self._pace = pace
        self._transfers = TransferReader()
        self._tail = tail
        self._tail_begin = end - len(tail)
        self._end = end
        self._at = self._tail_begin
        """The offset of the next byte that the master must send."""
        self._heard_at = now
        self._patience = pace.heartbeat * 5 // 2
        self._compared_by = now + self._patience
        """When it is given up that the master sends more of what is to be compared."""
        self._reported = -1
        self._reported_at = now
        self.received_bytes = 0

    @property
    def compared(self) -> bool:
        """True once the master's bytes before the own end were found to be the own ones."""
        return not self._tail

    @property
    def has_all(self) -> bool:
        """True when the master had no more to send: its last transfer was a heartbeat, or shorter than it may be."""
        at_end_of_file = self._at % self._file_size == 0
        return self.compared and 0 <= self._transfers.last_whole < self._pace.batch and not at_end_of_file

    @property
    def end(self) -> int:
        """Where the log ends with what was returned so far."""
        return self._end

    def hello(self, now: int) -> bytes:
        """The first report: where the master is to begin."""
        self._reported_at = now
        return encode_report(self._at)

    def received(self, data: bytes, now: int) -> Piece:
        """Bytes from the master; those to append, in one piece that begins at `end` before this call.

        Raises `NotReplicated` when they do not follow the own log, with nothing to append.
        """
        self._heard_at = now
        first = -1
        found: list[bytes] = []
        at, tail, end = self._at, self._tail, self._end
        for piece in self._transfers.receive(data):
            body = piece.data
            if end == 0 and not tail and piece.offset != at and not found:
                check_first(piece.offset, self._file_size)
                at = end = piece.offset
            if piece.offset != at:
                raise NotReplicated(
                    f"it sends offset {piece.offset}, but this log ends at {end} and requested {at}: it is another log"
                )
            if tail and body:
                body = self._compare(at, body)
                self._compared_by = now + self._patience
                tail = tail if at + len(piece.data) < end else b""
            at += len(piece.data)
            if body:
                first = end if first < 0 else first
                found.append(body)
                end += len(body)
        self._at, self._tail, self._end = at, tail, end
        self.received_bytes += len(data)
        return Piece(first, b"".join(found)) if found else NOTHING

    def _compare(self, at: int, body: bytes) -> bytes:
        """What of the body lies beyond the own end, once the rest is what is there."""
        begin = at - self._tail_begin
        own = self._tail[begin : begin + len(body)]
        differs = first_difference(own, body)
        if differs >= 0:
            raise NotReplicated(
                f"its log and this log differ at offset {at + differs}: this log diverges up to {self._end}, so it is "
                "not replicated; delete this store, or truncate it to the common part"
            )
        return body[len(own) :]

    def report(self, kept: int, now: int) -> bytes:
        """The report that is due: `kept` is the end of what this slave keeps. Nothing while none is."""
        if not self.compared:
            # Where the comparison stands: the master must hear that this slave is alive, and of no more than it asked.
            if now - self._reported_at <= self._pace.heartbeat:
                return b""
            kept = self._tail_begin
        elif kept <= self._reported and now - self._reported_at <= self._pace.heartbeat:
            return b""
        self._reported = kept
        self._reported_at = now
        return encode_report(kept)

    def check(self, now: int) -> None:
        """Raise `NotReplicated` when the master does not send what is to be compared."""
        if self._tail and now >= self._compared_by:
            raise NotReplicated(
                f"the master sent no data from offset {self._at}, but this log ends at {self._end}: the master's log "
                "is shorter or was deleted there; not replicating"
            )

    def silent(self, now: int) -> bool:
        """True when the master was not heard for so long that it is gone."""
        return now - self._heard_at > self._pace.silence

    def due(self) -> int:
        """When `silent`, `check` or `report` is to be asked next."""
        at = min(self._heard_at + self._pace.silence + 1, self._reported_at + self._pace.heartbeat + 1)
        return min(at, self._compared_by) if self._tail else at
