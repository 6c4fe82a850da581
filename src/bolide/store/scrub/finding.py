"""A damaged range of a file of the store, as the scrub reports it."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class DamageKind(StrEnum):
    """The part of the store that is damaged, and so the source from which it can be restored."""

    RECORD = "record"
    """Bytes of the log. Only another copy of the log has them."""
    UNIT = "unit"
    """A unit of a queue, or its extension. It follows from the record."""
    ENTRY = "entry"
    """An entry, slot or header of an index file. It follows from the records."""
    UNREADABLE = "unreadable"
    """The disk failed the read of these bytes."""
    MISSING = "missing"
    """A file does not exist, or ends before these bytes."""


class Damage(Struct, frozen=True):
    """One damaged range."""

    kind: DamageKind
    path: str
    """Path of the file, relative to the folder of the store."""
    position: int
    """First damaged byte in the file."""
    size: int
    """Number of damaged bytes."""
    log_offset: int
    """Physical offset of the record that is damaged, or to which the unit or entry belongs."""
    sentence: str
    """The fault, as a clause."""

    @property
    def place(self) -> tuple[str, int, DamageKind]:
        """The identity of the damage in later passes."""
        return self.path, self.position, self.kind

    def __str__(self) -> str:
        return f"{self.path}, byte {self.position}, {self.size} bytes: {self.kind}: {self.sentence}"


def place_in_log(offset: int, segment_size: int) -> tuple[str, int]:
    """Return the file of a physical offset, relative to the store, and the position in it."""
    position = offset % segment_size
    return f"commitlog/{offset - position:020}", position
