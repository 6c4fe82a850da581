"""Finds the positions of records and their parts in a buffer, for `columns`.

Candidates are found by the magic, in pieces of the buffer, so that the mask fits into the CPU cache. Then the fixed
head of each is copied once, and every number is a field of that copy. Brokers never import this module.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bolide.layout.property_columns import Bytes, Ints, distance, places_of, rows_at
from bolide.layout.record import MAGIC_V1, MAGIC_V2, MIN_RECORD_SIZE

HEAD: Final = np.dtype([
    ("total_size", ">i4"), ("magic", ">i4"), ("body_crc", ">i4"), ("queue_id", ">i4"), ("flag", ">i4"),
    ("queue_offset", ">i8"), ("physical_offset", ">i8"), ("sys_flag", ">i4"), ("born_timestamp", ">i8"),
    ("born_host", "V8"), ("store_timestamp", ">i8"), ("store_host", "V8"), ("reconsume_times", ">i4"),
    ("prepared_transaction_offset", ">i8"), ("body_length", ">i4"),
])  # fmt: skip
"""The first bytes of a record whose two hosts are IPv4. With IPv6, only fields before the first host are valid."""
_BEFORE_HOSTS: Final = ("total_size", "magic", "body_crc", "queue_id", "flag", "queue_offset", "physical_offset",
                        "sys_flag", "born_timestamp")  # fmt: skip
_BEHIND_STORE_HOST: Final = {"reconsume_times": 0, "prepared_transaction_offset": 4, "body_length": 12}
_HOSTS: Final = 0x30
"""Bits of the sys flag for an IPv6 born host and an IPv6 store host."""
_MAGIC_BYTE: Final = 0xDA
"""The first byte of a magic, which is rare in text."""
_MAGIC_END: Final = 8
_FIRST_LOOK: Final = 16 * 1024
_LOOK: Final = 256 * 1024
_MIN_RUN: Final = 4 * 1024
"""Minimum size in bytes of a run of equally long records to exclude it from the search."""
_PROOF: Final = 36
"""Number of bytes at the start of a record that verify its position."""
_NATIVE: Final[dict[int, np.dtype[Any]]] = {4: np.dtype(np.int32), 8: np.dtype(np.int64)}
_LONG: Final = np.dtype(">i8")
_INT: Final = np.dtype(">i4")
_SHORT: Final = np.dtype(">i2")
_BYTE: Final = np.dtype("u1")
_MAGICS: Final = tuple(np.array([magic], ">i4").view("=i4")[0] for magic in (MAGIC_V1, MAGIC_V2))
"""The four bytes of each magic, read as a number in native byte order."""


@dataclass(frozen=True)
class RecordParts:
    """Positions of the parts of each record, computed as in `record`. `end` is -1 if its lengths are invalid."""

    starts: Ints
    heads: NDArray[Any]
    body: Ints
    topic_length_at: Ints
    topic: Ints
    properties: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.starts)

    def of(self, which: Any) -> RecordParts:
        """Return some of the records, selected by a slice, a mask or indexes."""
        return RecordParts(*(getattr(self, field.name)[which] for field in fields(self)))

    def field(self, raw: Bytes, name: str) -> NDArray[Any]:
        """Return a fixed field as int32 or int64, as stored, in native byte order."""
        if name in _BEFORE_HOSTS or not self._wide.any():
            held: NDArray[Any] = self.heads[name]
            return held.astype(_NATIVE[held.dtype.itemsize])
        if name == "store_timestamp":
            return numbers_at(raw, self.born_end, _LONG)
        kind: np.dtype[Any] = HEAD[name]
        return numbers_at(raw, self.store_end + _BEHIND_STORE_HOST[name], kind).astype(_NATIVE[kind.itemsize])

    @property
    def _wide(self) -> NDArray[np.int32]:
        bits: NDArray[np.int32] = self.heads["sys_flag"].astype(np.int32) & _HOSTS
        return bits

    @property
    def born_end(self) -> Ints:
        """Positions after the born hosts."""
        end: Ints = self.starts + 56 + 12 * ((self._wide >> 4) & 1)
        return end

    @property
    def store_end(self) -> Ints:
        """Positions after the store hosts."""
        end: Ints = self.born_end + 16 + 12 * ((self._wide >> 5) & 1)
        return end


def parts_at(raw: Bytes, starts: Ints, heads: NDArray[Any] | None = None) -> RecordParts:
    """Return the parts of the records at these positions. `heads`: their heads, if already copied."""
    if heads is None:
        heads = rows_at(raw, starts, HEAD.itemsize).view(HEAD)[:, 0]
    wide = heads["sys_flag"].astype(np.int64) & _HOSTS
    if wide.any():
        body = starts + HEAD.itemsize + 12 * ((wide >> 4) & 1) + 12 * ((wide >> 5) & 1)
        length = numbers_at(raw, body - 4, _INT)
    else:
        body = starts + HEAD.itemsize
        length = heads["body_length"].astype(np.int64)
    topic_length_at = body + np.maximum(length, 0, out=length)
    v2 = heads["magic"].astype(np.int32) == MAGIC_V2
    topic_length = numbers_at(raw, topic_length_at, _BYTE)
    topic_length[topic_length > 127] = -1
    topic = topic_length_at + 1
    if v2.any():
        topic_length = np.where(v2, numbers_at(raw, topic_length_at, _SHORT), topic_length)
        topic += v2
    properties = topic + np.maximum(topic_length, 0) + 2
    end = properties + np.maximum(numbers_at(raw, properties - 2, _SHORT), 0)
    end[(topic_length < 0) | (end > len(raw))] = -1
    return RecordParts(starts, heads, body, topic_length_at, topic, properties, end)


def proven_parts(raw: Bytes, base: int) -> tuple[RecordParts, int]:
    """Find the records in a byte range by magic, physical offset and inner lengths. Omit records within a body.

    `base` is the physical offset of the first byte. The second result is the position of the next record if the end of
    the range truncates it, else -1.
    """
    likely, skipped = _likely_positions(raw, base)
    parts, proven, cut = _proven(raw, base, likely)
    if skipped and (not proven or _overlap(parts)):
        # A found record has invalid inner lengths or is inside another record, so search the skipped bytes as well.
        parts, _, cut = _proven(raw, base, magic_positions(raw))
    if _overlap(parts):
        parts = parts.of(_outer(parts))
    end = int(parts.end[-1]) if len(parts) else 0
    return parts, next((at for at in cut if at >= end), -1)


def _proven(raw: Bytes, base: int, every: Ints) -> tuple[RecordParts, bool, list[int]]:
    """Return the valid records among these positions, whether all complete ones are valid, and the truncated ones."""
    fit = int(np.searchsorted(every, len(raw) - HEAD.itemsize, "right"))
    starts = every[:fit]
    heads = rows_at(raw, starts, HEAD.itemsize).view(HEAD)[:, 0]
    own = heads["physical_offset"].astype(np.int64) == starts + base
    kept = _where(own)
    starts, heads = starts[kept], heads[kept]
    sizes = heads["total_size"].astype(np.int64)
    whole = (sizes >= MIN_RECORD_SIZE) & (starts + sizes <= len(raw))
    cut = starts[~whole & (sizes >= MIN_RECORD_SIZE)].tolist()
    kept = _where(whole)
    starts, heads, sizes = starts[kept], heads[kept], sizes[kept]
    parts = parts_at(raw, starts, heads)
    good = parts.end == starts + sizes
    proven = bool(good.all())
    cut += [at for at in every[fit:].tolist() if _begins(raw, at, base)]
    return parts if proven else parts.of(good), proven, cut


def numbers_at(raw: Bytes, positions: Ints, kind: np.dtype[Any]) -> Ints:
    """Return the number of this type at each position. Positions beyond the end give meaningless numbers."""
    count = len(raw) - kind.itemsize + 1
    if count <= 0:
        return np.zeros(len(positions), np.int64)
    step = distance(positions)
    if step and int(positions[-1]) < count:
        apart: NDArray[Any] = np.ndarray((len(positions),), kind, raw, int(positions[0]), (step,))
        return apart.astype(np.int64)
    # One element per byte, each as wide as the number, so that an index is a position.
    every_byte: NDArray[Any] = np.ndarray((count,), kind, raw, strides=(1,))
    if len(positions) and int(positions.max()) >= count:
        positions = np.minimum(positions, count - 1)
    found: Ints = every_byte[positions].astype(np.int64)
    return found


def magic_positions(raw: Bytes) -> Ints:
    """Return every position at which a record may begin according to its magic, in order."""
    if len(raw) < _MAGIC_END:
        return np.empty(0, np.int64)
    at = places_of(raw[4 : len(raw) - 3], _MAGIC_BYTE)
    words: NDArray[np.int32] = np.ndarray((len(raw) - 3,), np.int32, raw, strides=(1,))
    magic = words[at + 4]
    starts: Ints = at[(magic == _MAGICS[0]) | (magic == _MAGICS[1])]
    return starts


def _likely_positions(raw: Bytes, base: int) -> tuple[Ints, bool]:
    """Like `magic_positions`, but skips the inside of consecutive records of one size.

    The second result is whether there are such records. Except for the first, their heads verify their positions.
    """
    found: list[Ints] = []
    at, size, skipped = 0, _FIRST_LOOK, False
    while at + _MAGIC_END <= len(raw) >= MIN_RECORD_SIZE:
        look = raw[at : at + size + _MAGIC_END - 1]
        some = magic_positions(look) + at
        found.append(some)
        at += len(look) - (_MAGIC_END - 1)
        size = _LOOK
        count, step = _run(raw, int(some[-1]), base) if len(some) else (0, 0)
        if count * step > _MIN_RUN:
            run = np.arange(1, count + 1) * step + some[-1]
            found.append(run)
            at, skipped = int(run[-1]) + step, True
    return (np.concatenate(found) if found else np.empty(0, np.int64)), skipped


def _run(raw: Bytes, first: int, base: int) -> tuple[int, int]:
    """Return the number of complete records after the first one that have its size, according to their heads, and the
    size."""
    if first + HEAD.itemsize > len(raw):
        return 0, 0
    size = int(raw[first : first + HEAD.itemsize].view(HEAD)["total_size"][0])
    count = (len(raw) - first) // size if size >= MIN_RECORD_SIZE else 0
    if count < 2:
        return 0, 0
    heads: NDArray[Any] = np.ndarray((count,), HEAD, raw, first, (size,))
    # Check increasing numbers of records, because usually the next record has another size.
    at, many = 0, 2
    while at < count:
        some = heads[at : at + many]
        offsets = np.arange(at, at + len(some)) * size + first + base
        same = some["physical_offset"].astype(np.int64) == offsets
        same &= some["total_size"].astype(np.int64) == size
        same &= some["magic"].astype(np.int32) == int(heads["magic"][0])
        if not same.all():
            return max(at + int(same.argmin()) - 1, 0), size
        at, many = at + len(some), 8 * many
    return count - 1, size


def _begins(raw: Bytes, at: int, base: int) -> bool:
    """Whether a record starts here, close to the end of the buffer."""
    head = raw[at : at + _PROOF].tobytes()
    if len(head) < _PROOF:
        return False
    size = int.from_bytes(head[:4], "big", signed=True)
    return size >= MIN_RECORD_SIZE and int.from_bytes(head[28:36], "big") == at + base


def _where(mask: NDArray[np.bool_]) -> Any:
    """Return the indexes or slice that a mask selects; a slice, without a copy, if only elements at the end are
    missing."""
    count = int(np.count_nonzero(mask))
    return slice(count) if bool(mask[:count].all()) else mask


def _overlap(parts: RecordParts) -> bool:
    return bool((parts.starts[1:] < parts.end[:-1]).any())


def _outer(found: RecordParts) -> Ints:
    """Return the indexes of the records that are not inside another record."""
    keep = []
    reached = 0
    for number, (start, end) in enumerate(zip(found.starts.tolist(), found.end.tolist(), strict=True)):
        if start >= reached:
            keep.append(number)
            reached = end
    return np.array(keep, np.int64)
