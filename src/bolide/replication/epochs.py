"""Epochs of a log: which master wrote which part (docs/protocol/ha.md 6, EpochFileCache.java).

Each election starts an epoch. If two logs share an epoch (number and start), their bytes are equal up to the end of
that epoch in the shorter log. So a diverging log can be truncated to the common part.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from bolide.replication.errors import EpochsDamaged, NotReplicated

_MOST: Final = 1 << 63


class Epoch(NamedTuple):
    """The part of the log from `start` to the start of the next epoch, written in this epoch."""

    number: int
    start: int


class Epochs:
    """The epochs of one log, oldest first. Numbers and starts both ascend, so every epoch except the last has bytes."""

    def __init__(self, entries: Iterable[Epoch] = ()) -> None:
        """Raises `EpochsDamaged` for entries that no log can have."""
        self._entries: list[Epoch] = []
        for entry in entries:
            last = self._entries[-1] if self._entries else Epoch(-1, -1)
            if entry.number <= last.number or entry.start <= last.start or entry.start >= _MOST:
                raise EpochsDamaged(f"epoch {entry.number} from {entry.start} follows {last.number} from {last.start}")
            self._entries.append(entry)

    @property
    def entries(self) -> tuple[Epoch, ...]:
        """All epochs, oldest first."""
        return tuple(self._entries)

    @property
    def last(self) -> Epoch | None:
        """The newest epoch, or None if there is none."""
        return self._entries[-1] if self._entries else None

    def covering(self, offset: int) -> Epoch | None:
        """Return the epoch of the byte at this offset, or None if the offset is below the first epoch."""
        for entry in reversed(self._entries):
            if entry.start <= offset:
                return entry
        return None

    def end_of(self, number: int, log_end: int) -> int:
        """Return the end offset of an epoch: the start of the next epoch or the end of the log. -1 if there is no such
        epoch."""
        end = log_end
        for entry in reversed(self._entries):
            if entry.number == number:
                return end
            end = entry.start
        return -1

    @property
    def begin(self) -> int:
        """Start offset of the oldest epoch, or -1 if there is none."""
        return self._entries[0].start if self._entries else -1

    def common_end(self, own_end: int, other: Epochs, other_end: int) -> int:
        """Return the offset up to which two logs are equal, or -1 if they share no epoch."""
        theirs = set(other.entries)
        for entry in reversed(self._entries):
            if entry in theirs:
                return min(self.end_of(entry.number, own_end), other.end_of(entry.number, other_end))
        return -1

    def begun(self, number: int, start: int) -> Epochs:
        """Return the epochs with a new one appended. Drops a last epoch with the same start, because it has no bytes.

        Raises `NotReplicated` if the number is not new, or if the start is below the start of the last epoch.
        """
        kept = [entry for entry in self._entries if entry.start < start]
        last = self.last
        if last is not None and (number <= last.number or start < last.start):
            raise NotReplicated(
                f"epoch {number} from offset {start} cannot follow epoch {last.number} from offset {last.start}"
            )
        return Epochs([*kept, Epoch(number, start)])

    def below_number(self, number: int) -> Epochs:
        """Return the epochs before `number`. The master of an epoch starts that epoch itself."""
        return Epochs(entry for entry in self._entries if entry.number < number)

    def cut_at(self, end: int) -> Epochs:
        """Return the epochs that start below `end`, the new end of a truncated log."""
        return Epochs(entry for entry in self._entries if entry.start < end)

    def without_before(self, begin: int) -> Epochs:
        """Return the epochs that contain a byte at or after `begin`, the new start of the log. Always includes the last
        epoch."""
        entries = self._entries
        return Epochs(
            entry for at, entry in enumerate(entries) if at + 1 == len(entries) or entries[at + 1].start > begin
        )

    def encode(self) -> bytes:
        """Encode `epochFileCheckpoint`: the number of epochs, the CRC of the following lines, and one line per
        epoch."""
        lines = "".join(f"{entry.number}-{entry.start}\n" for entry in self._entries)
        return f"{len(self._entries)}\n{zlib.crc32(lines.encode()) & 0x7FFFFFFF}\n{lines}".encode()


def decode_epochs(data: bytes) -> Epochs:
    """Decode `epochFileCheckpoint`. Raises `EpochsDamaged` if the data is invalid."""
    try:
        count, crc, *lines = data.decode("ascii").split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        found = [Epoch(int(number), int(start)) for number, start in (line.split("-") for line in lines)]
        noted, expected = int(count), int(crc)
    except ValueError as error:
        raise EpochsDamaged(f"it has no valid epochs: {error}") from error
    if len(found) != noted:
        raise EpochsDamaged(f"it says that it holds {noted} epochs, and holds {len(found)}")
    actual = zlib.crc32("".join(f"{line}\n" for line in lines).encode()) & 0x7FFFFFFF
    if expected not in (0, actual):  # RocketMQ does not check a CRC of 0
        raise EpochsDamaged(f"its checksum is {actual}, and it says {expected}")
    return Epochs(found)
