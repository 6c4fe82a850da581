"""Records of a commit log (docs/protocol/store.md 2), in a file or in the body of a response."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from proof.reader.errors import Unreadable

V1: Final = 0xDAA320A7
V2: Final = 0xDAA320AB
BLANK: Final = 0xCBD43194
COMPRESSED, PREPARED, COMMITTED, ROLLED_BACK = 0x1, 0x4, 0x8, 0xC
BORN_V6, STORE_V6 = 0x10, 0x20
_ZLIB: Final = (0, 0x300)
_HEADS: Final = {
    born | store: struct.Struct(f">iIIiiqqiq{20 if born else 8}sq{20 if store else 8}siqi")
    for born in (0, BORN_V6)
    for store in (0, STORE_V6)
}
"""The fields up to the length of the body, by the kinds of the two hosts."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record. Two records are equal if their fields from `at` to `prepared` are."""

    at: int
    """Physical offset."""
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    sys_flag: int
    stored_ms: int
    body: bytes
    """The stored body, which may be compressed."""
    properties_text: str
    prepared: int = 0
    """Offset of the half message of a commit or rollback."""
    magic: int = field(default=V1, compare=False)
    crc: int = field(default=0, compare=False)
    flag: int = field(default=0, compare=False)
    born_ms: int = field(default=0, compare=False)
    born_host: bytes = field(default=b"", compare=False)
    """Address and 4 bytes of the port."""
    store_host: bytes = field(default=b"", compare=False)
    reconsume_times: int = field(default=0, compare=False)

    @property
    def properties(self) -> dict[str, str]:
        """The properties by name."""
        return read_properties(self.properties_text)

    @property
    def queued(self) -> bool:
        """Whether the record has a unit in a queue. Half messages and rollbacks do not."""
        return self.sys_flag & ROLLED_BACK in (0, COMMITTED)

    @property
    def sent_body(self) -> bytes | None:
        """The body as its sender passed it, or None if it cannot be decompressed. Knows zlib only."""
        if not self.sys_flag & COMPRESSED:
            return self.body
        try:
            return zlib.decompress(self.body) if self.sys_flag & 0x700 in _ZLIB else None
        except zlib.error:
            return None


def read_properties(text: str) -> dict[str, str]:
    """Read properties as Java's decoder does, which skips pairs without a name or a value."""
    pairs = (pair.partition("\x01") for pair in text.split("\x02"))
    return {name: value for name, _, value in pairs if name and value}


def record_at(data: bytes, at: int = 0, base: int | None = None, *, crc: bool = True) -> Record:
    """Read the record at byte `at`.

    `base` is the log offset of the first byte of `data`; with None, the record is not compared with its place. Without
    `crc`, the body may have another checksum. Raises `Unreadable`.
    """
    where = f"no record at {at + (base or 0)}"
    if len(data) - at < 91:
        raise Unreadable(f"{where}: only {len(data) - at} bytes are left")
    head = _HEADS[data[at + 39] & (BORN_V6 | STORE_V6)]
    if len(data) - at < head.size:
        raise Unreadable(f"{where}: only {len(data) - at} bytes are left")
    (
        size, magic, checksum, queue_id, flag, queue_offset, own, sys_flag, born_ms, born_host, stored_ms, store_host,
        reconsume_times, prepared, length,
    ) = head.unpack_from(data, at)  # fmt: skip
    end, topic_at = at + size, at + head.size + length
    if magic not in (V1, V2) or not 91 <= size <= len(data) - at:
        raise Unreadable(f"{where}: size {size} of {len(data) - at} bytes, magic {magic:#x}")
    if base is not None and own != base + at:
        raise Unreadable(f"{where}: its own offset is {own}")
    name_at = topic_at + (2 if magic == V2 else 1)
    text_at = name_at + int.from_bytes(data[topic_at:name_at]) + 2
    if length < 0 or text_at > end or int.from_bytes(data[text_at - 2 : text_at], signed=True) != end - text_at:
        raise Unreadable(f"{where}: the lengths of its body, topic and properties do not add up to {size} bytes")
    body = data[topic_at - length : topic_at]
    if crc and body and zlib.crc32(body) & 0x7FFFFFFF != checksum:
        raise Unreadable(f"{where}: its body has another checksum")
    topic = data[name_at : text_at - 2].decode("utf-8", "backslashreplace")
    text = data[text_at:end].decode("utf-8", "backslashreplace")
    return Record(
        own, size, topic, queue_id, queue_offset, sys_flag, stored_ms, body, text, prepared, magic, checksum, flag,
        born_ms, born_host, store_host, reconsume_times,
    )  # fmt: skip


class Run(NamedTuple):
    """Consecutive records from the start of some bytes."""

    records: list[Record]
    end: int
    """The first byte after them."""
    why: str
    """The error at `end`, or "" if the bytes end there."""


def leading(data: bytes, base: int | None = None, *, crc: bool = True) -> Run:
    """Read records until one is unreadable. `base` and `crc` have the meaning of `record_at`."""
    records: list[Record] = []
    at = 0
    try:
        while at < len(data):
            records.append(record_at(data, at, base, crc=crc))
            at += records[-1].size
    except Unreadable as error:
        return Run(records, at, str(error))
    return Run(records, at, "")


def read_records(data: bytes) -> list[Record]:
    """Read the records in the body of a response. Raises `Unreadable`."""
    run = leading(data)
    if run.why:
        raise Unreadable(run.why)
    return run.records
