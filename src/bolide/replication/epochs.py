"""Who was master when: the epochs of a log (docs/protocol/ha.md 6, EpochFileCache.java).

Each election begins an epoch. Two logs whose epochs have a number and a start in common hold the same bytes up to where
that epoch ends in the shorter of them. So a log that went another way can be cut where it left the common one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final, NamedTuple

from bolide.replication.errors import EpochsDamaged, NotReplicated

_MOST: Final = 1 << 63


class Epoch(NamedTuple):
    """The log from `start` on was written under this epoch, up to where the next one starts."""

    number: int
    start: int


class Epochs:
    """The epochs of one log, oldest first; numbers and starts both ascend, so each but the last has bytes."""

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
        """All of them."""
        return tuple(self._entries)

    @property
    def last(self) -> Epoch | None:
        """The newest; None where there is none."""
        return self._entries[-1] if self._entries else None

    def covering(self, offset: int) -> Epoch | None:
        """The epoch of the byte at this offset; None below the first."""
        for entry in reversed(self._entries):
            if entry.start <= offset:
                return entry
        return None

    def end_of(self, number: int, log_end: int) -> int:
        """Where this epoch ends: at the start of the next one, the last at the end of the log; -1 if there is none."""
        end = log_end
        for entry in reversed(self._entries):
            if entry.number == number:
                return end
            end = entry.start
        return -1

    @property
    def begin(self) -> int:
        """Where the oldest one starts; -1 without any."""
        return self._entries[0].start if self._entries else -1

    def common_end(self, own_end: int, other: Epochs, other_end: int) -> int:
        """Up to where this log and another are the same; -1 when they have no epoch in common."""
        theirs = set(other.entries)
        for entry in reversed(self._entries):
            if entry in theirs:
                return min(self.end_of(entry.number, own_end), other.end_of(entry.number, other_end))
        return -1

    def begun(self, number: int, start: int) -> Epochs:
        """These and a new one. One that starts there already has no bytes, and is left out.

        Raises `NotReplicated` for a number that is not new, or a start before the last one's.
        """
        kept = [entry for entry in self._entries if entry.start < start]
        last = self.last
        if last is not None and (number <= last.number or start < last.start):
            raise NotReplicated(
                f"epoch {number} from offset {start} cannot follow epoch {last.number} from offset {last.start}"
            )
        return Epochs([*kept, Epoch(number, start)])

    def below_number(self, number: int) -> Epochs:
        """Those with a lower number: a master of an epoch begins it itself."""
        return Epochs(entry for entry in self._entries if entry.number < number)

    def cut_at(self, end: int) -> Epochs:
        """Those that have a byte below `end`, where the log was cut."""
        return Epochs(entry for entry in self._entries if entry.start < end)

    def without_before(self, begin: int) -> Epochs:
        """Those that have a byte from `begin` on, where the log begins now; the last one always stays."""
        entries = self._entries
        return Epochs(
            entry for at, entry in enumerate(entries) if at + 1 == len(entries) or entries[at + 1].start > begin
        )

    def encode(self) -> bytes:
        """The file `epochFileCheckpoint`: how many, the CRC of what follows, and a line for each."""
        lines = "".join(f"{entry.number}-{entry.start}\n" for entry in self._entries)
        return f"{len(self._entries)}\n{zlib.crc32(lines.encode()) & 0x7FFFFFFF}\n{lines}".encode()


def decode_epochs(data: bytes) -> Epochs:
    """Read the file. Raises `EpochsDamaged`."""
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
    if expected not in (0, actual):  # 0: RocketMQ does not look
        raise EpochsDamaged(f"its checksum is {actual}, and it says {expected}")
    return Epochs(found)
