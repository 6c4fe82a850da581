"""Progress of the scrub on disk: a small file with a checksum, replaced atomically.

The file is a hint. Its position is not used if it is beyond the log, or if the log has another record at `anchor`: then
the file is from another store. In both cases a pass starts at the first record.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec
from msgspec import Struct

from bolide.store.scrub.finding import Damage

NAME: Final = "scrub"
"""Name of the file in the folder of the store."""
_HEAD: Final = "bolide scrub 1"


class ScrubState(Struct, kw_only=True):
    """Progress of the scrub of one store. Times are ms since the epoch by the wall clock."""

    running: bool = False
    """Whether the current pass is not complete."""
    began: int = 0
    """Start of the current pass, or 0 before the first one."""
    position: int = 0
    """Physical offset below which the current pass has checked the log, with its units and index entries."""
    begin: int = 0
    """Physical offset of the first record of the current pass."""
    target: int = 0
    """Physical offset at which the current pass ends."""
    finished: int = 0
    """End of the last complete pass, or 0 before it."""
    passes: int = 0
    """Number of complete passes."""
    anchor: int = -1
    """Physical offset of the last record that was checked, or -1 before the first one."""
    anchor_crc: int = 0
    """CRC-32 of the header of that record."""
    findings: list[Damage] = []
    unlisted: int = 0
    """Number of findings of this pass beyond the maximum."""


def encode_state(state: ScrubState) -> bytes:
    """Return the content of the file."""
    body = msgspec.json.encode(state)
    return f"{_HEAD} {crc32(body):08x}\n".encode() + body


def decode_state(data: bytes) -> ScrubState | None:
    """Return the state in the file, or None if the file is damaged or of another version."""
    head, _, body = data.partition(b"\n")
    if head != f"{_HEAD} {crc32(body):08x}".encode():
        return None
    try:
        state = msgspec.json.decode(body, type=ScrubState)
    except msgspec.MsgspecError:
        return None
    offsets = (state.began, state.begin, state.position, state.target)
    return state if min(offsets) >= 0 and state.begin <= state.position else None
