"""A slave's side of its connection in default HA mode (docs/protocol/ha.md 1, DefaultHAClient.java).

A Java slave appends the master's bytes to any log. Bolide first requests the last bytes of the local log again and
compares them. If they differ, it raises an error with the offset before it appends a byte. This works with masters of
any release.
"""

from __future__ import annotations

from typing import Final

from bolide.replication.errors import NotReplicated
from bolide.replication.frames import Piece, TransferReader, encode_report
from bolide.replication.pacing import Pace

NOTHING: Final = Piece(0, b"")


def compare_from(begin: int, end: int, most: int, file_size: int) -> int:
    """Return the offset at which to start comparing a log from `begin` to `end`.

    It is at most `most` bytes before the end, and within the file of the last byte. It is 0 only for an empty log,
    because a slave that requests offset 0 gets the newest file.
    """
    if end <= 0:
        return 0
    in_file = (end - 1) - (end - 1) % file_size
    return max(end - most, in_file, begin, 1)


def first_difference(own: bytes, theirs: bytes) -> int:
    """Return the index of the first byte at which `own` and `theirs` differ, or -1 if `theirs` starts with `own`.

    `theirs` must be at least as long as `own`.
    """
    if theirs[: len(own)] == own:
        return -1
    return next(i for i in range(len(own)) if own[i] != theirs[i])


def check_first(offset: int, file_size: int) -> None:
    """Check the first offset that a master sends to an empty log. Raises `NotReplicated` if it is not the start of a
    file."""
    if offset % file_size != 0:
        raise NotReplicated(
            f"it starts at offset {offset}, which is not the start of a file with mappedFileSizeCommitLog = "
            f"{file_size} bytes: set the master's size"
        )


class SlaveSession:
    """One connection to a master. `tail`: local bytes from `compare_from` to the end of the log. `now` is ms."""

    def __init__(self, end: int, tail: bytes, file_size: int, pace: Pace, now: int) -> None:
        self._file_size = file_size
        self._pace = pace
        self._transfers = TransferReader()
        self._tail = tail
        self._tail_begin = end - len(tail)
        self._end = end
        self._at = self._tail_begin
        """Offset of the next byte that the master must send."""
        self._heard_at = now
        self._patience = pace.heartbeat * 5 // 2
        self._compared_by = now + self._patience
        """Deadline in ms for the next bytes of the master to compare."""
        self._reported = -1
        self._reported_at = now
        self.received_bytes = 0

    @property
    def compared(self) -> bool:
        """Whether the whole local tail has been compared and equals the master's bytes."""
        return not self._tail

    @property
    def has_all(self) -> bool:
        """Whether the slave has caught up: the last transfer was a heartbeat, or a partial batch that does not end a
        log file."""
        at_end_of_file = self._at % self._file_size == 0
        return self.compared and 0 <= self._transfers.last_whole < self._pace.batch and not at_end_of_file

    @property
    def end(self) -> int:
        """End offset of the log, including the bytes returned so far."""
        return self._end

    def hello(self, now: int) -> bytes:
        """Return the first report, which contains the offset at which the master should start."""
        self._reported_at = now
        return encode_report(self._at)

    def received(self, data: bytes, now: int) -> Piece:
        """Process bytes from the master. Return the bytes to append as one piece, which starts at the previous `end`.

        Raises `NotReplicated` if they do not continue the local log. The caller must then append none of them.
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
                    f"it sends offset {piece.offset}, but this log ends at {end} and this slave requested {at}: "
                    "it has a different log"
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
        """Compare the bytes that the local log already has, and return the remaining bytes. Raises `NotReplicated` if
        they differ."""
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
        """Return the acknowledgement to send now, or b"" if none is due. `kept`: end offset of the durable log."""
        if not self.compared:
            # The master must see that this slave is alive, so repeat the offset at which the comparison started.
            if now - self._reported_at <= self._pace.heartbeat:
                return b""
            kept = self._tail_begin
        elif kept <= self._reported and now - self._reported_at <= self._pace.heartbeat:
            return b""
        self._reported = kept
        self._reported_at = now
        return encode_report(kept)

    def check(self, now: int) -> None:
        """Raise `NotReplicated` if the master does not send the bytes to compare in time."""
        if self._tail and now >= self._compared_by:
            raise NotReplicated(
                f"the master sent no data from offset {self._at}, but this log ends at {self._end}: the master's log "
                "is shorter or was deleted there; not replicating"
            )

    def silent(self, now: int) -> bool:
        """Return whether the master has been idle for too long and is considered lost."""
        return now - self._heard_at > self._pace.silence

    def due(self) -> int:
        """Return when to call `silent`, `check` or `report` next."""
        at = min(self._heard_at + self._pace.silence + 1, self._reported_at + self._pace.heartbeat + 1)
        return min(at, self._compared_by) if self._tail else at
