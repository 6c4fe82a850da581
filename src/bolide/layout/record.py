"""CommitLog records, V1 and V2, and the blank at the end of a file: RocketMQ's MessageExtEncoder and CommitLog.

All integers are big-endian. A record contains its own size, magic and physical offset, so it can be found and verified
anywhere. A host has 8 bytes, or 20 if its bit for IPv6 is set in the sys flag. OFFSET_ constants do not depend on this.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i16, i32, i64, u8

from bolide.layout.body_crc import body_crc
from bolide.layout.broker_message import BrokerMessage
from bolide.layout.errors import RecordError
from bolide.layout.limits import INT16_MAX, MAX_PROPERTIES_LENGTH, MAX_TOPIC_LENGTH
from bolide.layout.message_properties import MessageProperties
from bolide.layout.properties import text_of
from bolide.layout.sysflag import BORN_HOST_V6, STORE_HOST_V6

MAGIC_V1: Final = -626843481
MAGIC_V2: Final = -626843477
"""Used only for topics longer than 127 bytes, whose length takes two bytes instead of a signed one."""
BLANK_MAGIC: Final = -875286124
BLANK_SIZE: Final = 8
"""Every file reserves these bytes for the blank, so a record fits if size + BLANK_SIZE <= remaining."""
MIN_RECORD_SIZE: Final = 91

APART: Final = 64 * 1024
"""Minimum length of a body, in bytes, that is written without a copy."""

OFFSET_PHYSICAL: Final = 28
OFFSET_SYS_FLAG: Final = 36
OFFSET_BORN_HOST: Final = 48

GOOD: Final = 0
BLANK: Final = 1
BAD_SIZED: Final = 2
"""A record whose parts do not add up to its size: dispatch skips exactly that many bytes."""
BAD: Final = 3
"""Invalid bytes without a usable size."""

_V1_BYTES: Final = b"\xda\xa3\x20\xa7"
_V2_BYTES: Final = b"\xda\xa3\x20\xab"


@final
class Record:
    """All fields of one stored record. Hosts are raw (8 or 20 bytes), and properties are the stored bytes.

    Reads the `size` bytes from byte `at`, for which `check_record` must have returned GOOD.
    """

    def __init__(self, buf: bytes, at: i64, size: i64) -> None:
        sys_flag: i64 = i64(read_i32_be(buf, at + OFFSET_SYS_FLAG))
        born_end: i64 = at + 68 if sys_flag & BORN_HOST_V6 else at + 56
        store_end: i64 = born_end + 28 if sys_flag & STORE_HOST_V6 else born_end + 16
        body_at: i64 = store_end + 16
        body_length: i64 = i64(read_i32_be(buf, store_end + 12))
        body_end: i64 = body_at + body_length if body_length > 0 else body_at
        magic: i64 = i64(read_i32_be(buf, at + 4))
        topic_at: i64 = body_end + 2 if magic == MAGIC_V2 else body_end + 1
        topic_length: i64 = 0
        if magic == MAGIC_V2:
            topic_length = i64(read_i16_be(buf, body_end))
        else:
            topic_length = buf[body_end]
        self.total_size: i64 = size
        self.magic: i64 = magic
        self.body_crc: i64 = i64(read_i32_be(buf, at + 8))
        self.queue_id: i64 = i64(read_i32_be(buf, at + 12))
        self.flag: i64 = i64(read_i32_be(buf, at + 16))
        self.queue_offset: i64 = read_i64_be(buf, at + 20)
        self.physical_offset: i64 = read_i64_be(buf, at + OFFSET_PHYSICAL)
        self.sys_flag: i64 = sys_flag
        self.born_timestamp: i64 = read_i64_be(buf, at + 40)
        self.born_host: bytes = buf[at + OFFSET_BORN_HOST : born_end]
        self.store_timestamp: i64 = read_i64_be(buf, born_end)
        self.store_host: bytes = buf[born_end + 8 : store_end]
        self.reconsume_times: i64 = i64(read_i32_be(buf, store_end))
        self.prepared_transaction_offset: i64 = read_i64_be(buf, store_end + 4)
        self.body: bytes = buf[body_at:body_end]
        self.topic: str = text_of(buf[topic_at : topic_at + topic_length])
        self.properties: bytes = buf[topic_at + topic_length + 2 : at + size]


@final
class Checked:
    """The result of `check_record`: GOOD, BLANK or BAD_SIZED with the size field, or BAD with size 0."""

    def __init__(self, status: i64, size: i64) -> None:
        self.status: i64 = status
        self.size: i64 = size


def record_size(body_length: i64, topic_length: i64, properties_length: i64, sys_flag: i64) -> int:
    """Return the size of a record with parts of these lengths, in bytes. A topic above 127 bytes needs V2."""
    size: i64 = MIN_RECORD_SIZE + body_length + topic_length + properties_length
    if sys_flag & BORN_HOST_V6:
        size += 12
    if sys_flag & STORE_HOST_V6:
        size += 12
    if topic_length > MAX_TOPIC_LENGTH:
        size += 1
    return size


def encode_record(
    w: BytesWriter,
    message: BrokerMessage,
    *,
    queue_offset: i64,
    physical_offset: i64,
    store_timestamp: i64,
    apart: list[bytes] | None = None,
) -> int:
    """Append the record of a message to `w` and return its size; computes size, magic and body CRC.

    With `apart`, a long body is not copied: the contents of `w` are moved to `apart`, followed by the body, and `w`
    then contains only the bytes after the body.

    Raises RecordError, with nothing appended, if a host does not match the sys flag or a part is too long.
    """
    body = message.body
    topic = message.topic_bytes
    properties = message.encoded_properties
    body_length: i64 = len(body)
    topic_length: i64 = len(topic)
    properties_length: i64 = len(properties)
    sys_flag: i64 = message.sys_flag
    queue_id: i64 = message.queue_id
    flag: i64 = message.flag
    reconsume_times: i64 = message.reconsume_times
    born_size: i64 = 20 if sys_flag & BORN_HOST_V6 else 8
    store_size: i64 = 20 if sys_flag & STORE_HOST_V6 else 8
    if len(message.born_host) != born_size or len(message.store_host) != store_size:
        raise RecordError(
            f"hosts of {len(message.born_host)} and {len(message.store_host)} bytes do not fit sys flag {sys_flag}: "
            "set its IPv6 bits"
        )
    if properties_length > MAX_PROPERTIES_LENGTH or topic_length > INT16_MAX:
        raise RecordError(
            f"properties of {properties_length} or a topic of {topic_length} bytes cannot be stored: at most 32767"
        )
    total: i64 = 75 + born_size + store_size + body_length + topic_length + properties_length
    v2 = topic_length > MAX_TOPIC_LENGTH
    if v2:
        total += 1
    write_i32_be(w, i32(total))
    write_i32_be(w, i32(MAGIC_V2 if v2 else MAGIC_V1))
    crc: i64 = body_crc(body, 0, int(body_length))
    write_i32_be(w, i32(crc))
    write_i32_be(w, i32(queue_id))
    write_i32_be(w, i32(flag))
    write_i64_be(w, queue_offset)
    write_i64_be(w, physical_offset)
    write_i32_be(w, i32(sys_flag))
    write_i64_be(w, message.born_timestamp)
    w.write(message.born_host)
    write_i64_be(w, store_timestamp)
    w.write(message.store_host)
    write_i32_be(w, i32(reconsume_times))
    write_i64_be(w, message.prepared_transaction_offset)
    write_i32_be(w, i32(body_length))
    if apart is None or body_length < APART:
        w.write(body)
    else:
        apart.append(w.getvalue())
        apart.append(body)
        w.truncate(0)
    if v2:
        write_i16_be(w, i16(topic_length))
    else:
        w.append(u8(topic_length))
    w.write(topic)
    write_i16_be(w, i16(properties_length))
    w.write(properties)
    return total


def record_of(message: BrokerMessage, store_timestamp: i64) -> Record:
    """Return the record of a message that is not in a log. Raises RecordError like `encode_record`."""
    w = BytesWriter()
    size = encode_record(w, message, queue_offset=0, physical_offset=0, store_timestamp=store_timestamp)
    return Record(w.getvalue(), 0, size)


def copy_of(record: Record, topic: str, queue_id: int, properties: MessageProperties) -> BrokerMessage:
    """Return a message that stores a record again, with this topic and these properties.

    Body, flags, born timestamp, born host and reconsume times do not change. A delay in the properties is not applied.
    """
    message = BrokerMessage(
        topic, topic.encode(), queue_id, record.body, properties, record.born_timestamp, record.born_host
    )
    message.flag = record.flag
    message.sys_flag = record.sys_flag
    message.reconsume_times = record.reconsume_times
    message.delays = False
    return message


def encode_blank(remaining: int) -> bytes:
    """Return the 8 bytes that mark the last `remaining` bytes of a file as containing no record."""
    w = BytesWriter()
    write_i32_be(w, i32(remaining))
    write_i32_be(w, i32(BLANK_MAGIC))
    return w.getvalue()


def decode_record(buf: bytes, at: i64) -> Record:
    """Return the record at byte `at`. Does not check CRCs. Raises RecordError if no valid record is there."""
    checked = check_record(buf, at, len(buf), False)
    if checked.status != GOOD:
        raise RecordError(f"no record at byte {at} of {len(buf)}: {describe(checked)}")
    return Record(buf, at, checked.size)


def properties_at(buf: bytes, at: i64) -> bytes:
    """Return the raw properties of the record at byte `at`, which must be complete."""
    p = topic_start(buf, at)
    if read_i32_be(buf, at + 4) == MAGIC_V2:
        p += 2 + i64(read_i16_be(buf, p))
    else:
        p += 1 + i64(buf[p])
    return buf[p + 2 : p + 2 + i64(read_i16_be(buf, p))]


def topic_start(buf: bytes, at: i64) -> i64:
    """Return the position of the topic in the record at byte `at`. The length of the topic is stored there first."""
    sys_flag: i64 = i64(read_i32_be(buf, at + OFFSET_SYS_FLAG))
    p: i64 = at + 84
    if sys_flag & BORN_HOST_V6:
        p += 12
    if sys_flag & STORE_HOST_V6:
        p += 12
    body: i64 = i64(read_i32_be(buf, p))
    p += 4
    if body > 0:
        p += body
    return p


def decode_records(buf: bytes) -> list[Record]:
    """Return consecutive records, as in the response to a pull; stops at the first invalid one, as Java does."""
    found: list[Record] = []
    at: i64 = 0
    end: i64 = len(buf)
    while end - at >= MIN_RECORD_SIZE and is_good(buf, at, end, False):
        size: i64 = i64(read_i32_be(buf, at))
        found.append(Record(buf, at, size))
        at += size
    return found


def body_matches(record: Record) -> bool:
    """Whether the body matches the CRC of its record. An empty body always does, as in Java."""
    body = record.body
    crc: i64 = body_crc(body, 0, len(body))
    return crc == record.body_crc or not body


def decode_intact(buf: bytes) -> tuple[list[Record], int]:
    """Return the leading records whose bodies match their CRCs, and the position after them.

    The position is the length of `buf` if it contains only intact records.
    """
    found: list[Record] = []
    at: i64 = 0
    end: i64 = len(buf)
    while end - at >= MIN_RECORD_SIZE and is_good(buf, at, end, False):
        size: i64 = i64(read_i32_be(buf, at))
        record = Record(buf, at, size)
        if not body_matches(record):
            break
        found.append(record)
        at += size
    return found, at


def check_record(buf: bytes, at: i64, limit: i64, check_crc: bool) -> Checked:
    """Check the record between `at` and `limit` as Java's checkMessageAndReturnSize does, in the same order."""
    if limit > len(buf):
        limit = len(buf)
    left: i64 = limit - at
    if left < BLANK_SIZE:
        return Checked(BAD, 0)
    total: i64 = i64(read_i32_be(buf, at))
    if total > left:
        return Checked(BAD, 0)
    magic: i64 = i64(read_i32_be(buf, at + 4))
    if magic == BLANK_MAGIC:
        return Checked(BLANK, total)
    if magic != MAGIC_V1 and magic != MAGIC_V2:
        return Checked(BAD, 0)
    end = _end_of_parts(buf, at, limit, check_crc)
    if end < 0 or total <= 0:
        return Checked(BAD, 0)
    return Checked(GOOD if end == at + total else BAD_SIZED, total)


def is_good(buf: bytes, at: i64, limit: i64, check_crc: bool) -> bool:
    """Return whether `check_record` would return GOOD. `limit` must be within `buf`."""
    total: i64 = i64(read_i32_be(buf, at))
    magic: i64 = i64(read_i32_be(buf, at + 4))
    if total <= 0 or total > limit - at or (magic != MAGIC_V1 and magic != MAGIC_V2):
        return False
    return _end_of_parts(buf, at, limit, check_crc) == at + total


def _end_of_parts(buf: bytes, at: i64, limit: i64, check_crc: bool) -> i64:
    """Return the end of the record at `at` according to its inner lengths, or -1 if it exceeds `limit` or the CRC is
    wrong."""
    if limit - at < MIN_RECORD_SIZE:
        return -1
    sys_flag: i64 = i64(read_i32_be(buf, at + OFFSET_SYS_FLAG))
    p: i64 = at + 84
    if sys_flag & BORN_HOST_V6:
        p += 12
    if sys_flag & STORE_HOST_V6:
        p += 12
    if p + 4 > limit:
        return -1
    body_length: i64 = i64(read_i32_be(buf, p))
    p += 4
    if body_length > 0:
        if p + body_length > limit:
            return -1
        if check_crc:
            crc: i64 = body_crc(buf, int(p), int(p + body_length))
            stored: i64 = i64(read_i32_be(buf, at + 8))
            if crc != stored:
                return -1
        p += body_length
    if p + 3 > limit:
        return -1
    topic_length: i64 = 0
    if read_i32_be(buf, at + 4) == MAGIC_V2:
        topic_length = i64(read_i16_be(buf, p))
        p += 2
    else:
        topic_length = buf[p]
        p += 1
        if topic_length > MAX_TOPIC_LENGTH:
            # A signed byte for Java: negative.
            return -1
    if topic_length < 0 or p + topic_length + 2 > limit:
        return -1
    p += topic_length
    properties_length: i64 = i64(read_i16_be(buf, p))
    p += 2
    if properties_length > 0:
        p += properties_length
    return p if p <= limit else -1


def find_record(buf: bytes, at: i64, base: i64) -> int:
    """Return the position of the first record at or after `at`, or -1; `base` is the physical offset of byte 0.

    Checks magic, physical offset and inner lengths, but no CRC. A record truncated by the end of `buf` is not found.
    """
    end: i64 = len(buf)
    v1: i64 = _next_magic(buf, at, _V1_BYTES)
    v2: i64 = _next_magic(buf, at, _V2_BYTES)
    while v1 < end or v2 < end:
        found: i64 = v1 if v1 < v2 else v2
        if found + MIN_RECORD_SIZE <= end and read_i64_be(buf, found + OFFSET_PHYSICAL) == base + found:
            if check_record(buf, found, end, False).status == GOOD:
                return found
        if found == v1:
            v1 = _next_magic(buf, found + 1, _V1_BYTES)
        else:
            v2 = _next_magic(buf, found + 1, _V2_BYTES)
    return -1


def _next_magic(buf: bytes, at: i64, magic: bytes) -> i64:
    """Return the first position at or after `at` where a record with this magic may begin; the length of `buf` if
    none."""
    found: i64 = buf.find(magic, at + 4)
    return found - 4 if found >= 0 else len(buf)


def describe(checked: Checked) -> str:
    """Return a clause that describes an invalid record, for error messages."""
    if checked.status == GOOD:
        return f"a record of {checked.size} bytes"
    if checked.status == BLANK:
        return f"the blank of {checked.size} bytes at a file's end"
    if checked.status == BAD_SIZED:
        return f"the parts do not add up to the size {checked.size}"
    return "size, magic, lengths or body CRC are wrong"
