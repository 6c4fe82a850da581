"""Stored messages as a pull delivers them, decoded by hand: the second reader that ours is compared with."""

import struct
import zlib
from dataclasses import dataclass

_V2 = -626843477
_BORN_V6 = 1 << 4
_STORE_V6 = 1 << 5


@dataclass(frozen=True)
class Stored:
    """One record of the commit log. `body` is as stored, that is, maybe compressed."""

    raw: bytes
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    flag: int
    sys_flag: int
    body_crc: int
    reconsume_times: int
    body: bytes
    properties: dict[str, str]


def stored(data: bytes) -> list[Stored]:
    """All records in the body of a pull or query answer; AssertionError where one does not add up."""
    found: list[Stored] = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        assert 0 < size <= len(data) - at, (size, at, len(data))
        found.append(_one(data[at : at + size]))
        at += size
    return found


def _one(raw: bytes) -> Stored:
    magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag = struct.unpack_from(">iiiiqqi", raw, 4)
    at = 40 + 8 + (20 if sys_flag & _BORN_V6 else 8) + 8 + (20 if sys_flag & _STORE_V6 else 8)
    reconsume_times, _, body_length = struct.unpack_from(">iqi", raw, at)
    at += 16
    body = raw[at : at + body_length]
    assert zlib.crc32(body) & 0x7FFFFFFF == crc
    at += body_length
    width = 2 if magic == _V2 else 1
    topic_length = int.from_bytes(raw[at : at + width], "big")
    at += width
    topic = raw[at : at + topic_length].decode()
    at += topic_length
    (length,) = struct.unpack_from(">h", raw, at)
    text = raw[at + 2 : at + 2 + length].decode()
    pairs = (item.partition("\x01") for item in text.split("\x02") if item)
    properties = {name: value for name, _, value in pairs}
    return Stored(
        raw, topic, queue_id, queue_offset, physical_offset, flag, sys_flag, crc, reconsume_times, body, properties
    )
