"""Data derived from one record: its position in a queue, its tags code, its index keys.

The rules are RocketMQ's CommitLog.checkMessageAndReturnSize (tags code, delivery time) and IndexService.buildIndex (key
texts). Recovery runs `dispatch_at` for every record of a log, so it never reads the body.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from bolide.dispatch.multi import LMQ_QUEUE_ID, MultiQueue, multi_queues
from bolide.layout.delay import delivery_time
from bolide.layout.hashes import java_hash
from bolide.layout.names import SCHEDULE_TOPIC
from bolide.layout.properties import text_of
from bolide.layout.record import (
    BAD,
    GOOD,
    MAGIC_V2,
    MIN_RECORD_SIZE,
    OFFSET_PHYSICAL,
    Record,
    check_record,
    is_good,
)
from bolide.layout.record_crc import crc_holds
from bolide.layout.sysflag import (
    BORN_HOST_V6,
    STORE_HOST_V6,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)

if TYPE_CHECKING:
    from bolide.layout.shape import StoreShape


# Names as integers of their bytes, so that one comparison is enough.
_KEYS_4: Final = 0x4B455953
_TAGS_4: Final = 0x54414753
_DELA_4: Final = 0x44454C41
_Y: Final = 0x59
_UNIQ_KEY_8: Final = 0x554E49515F4B4559
_INNE_4: Final = 0x494E4E45
_DISPATCH_8: Final = 0x4449535041544348
_MULTI_LENGTH: Final = 20


@final
class Dispatch:
    """The fields of one record that the derived files need. Texts of absent properties are empty. Timestamps are ms."""

    def __init__(
        self,
        topic: str,
        *,
        queue_id: i64,
        queue_offset: i64,
        physical_offset: i64,
        size: i64,
        tags_code: i64,
        store_timestamp: i64,
        sys_flag: i64,
    ) -> None:
        self.topic: str = topic
        self.queue_id: i64 = queue_id
        self.queue_offset: i64 = queue_offset
        self.physical_offset: i64 = physical_offset
        self.size: i64 = size
        self.tags_code: i64 = tags_code
        self.store_timestamp: i64 = store_timestamp
        self.sys_flag: i64 = sys_flag
        self.uniq_key: str = ""
        self.keys: str = ""
        self.tags: str = ""
        self.prepared_transaction_offset: i64 = 0
        self.properties: bytes = b""
        self.multi: list[MultiQueue] | None = None
        """Light queues that the record enters in addition to its own queue. None for almost all records."""


@final
class Scanned:
    """The result of `scan_records`: the dispatches, the position after them, and status and size of the record there.

    `status` is GOOD if the scan stopped at its limit of records or bytes.
    """

    def __init__(self, dispatches: list[Dispatch], end: i64, status: i64, size: i64) -> None:
        self.dispatches: list[Dispatch] = dispatches
        self.end: i64 = end
        self.status: i64 = status
        self.size: i64 = size


def dispatch_at(buf: bytes, at: i64, shape: StoreShape) -> Dispatch:
    """Return the dispatch of the record at byte `at`, for which `check_record` must have returned GOOD."""
    sys_flag: i64 = i64(read_i32_be(buf, at + 36))
    born_end: i64 = at + 68 if sys_flag & BORN_HOST_V6 else at + 56
    store_end: i64 = born_end + 28 if sys_flag & STORE_HOST_V6 else born_end + 16
    body_length: i64 = i64(read_i32_be(buf, store_end + 12))
    p: i64 = store_end + 16
    if body_length > 0:
        p += body_length
    topic_length: i64 = 0
    if read_i32_be(buf, at + 4) == MAGIC_V2:
        topic_length = i64(read_i16_be(buf, p))
        p += 2
    else:
        topic_length = buf[p]
        p += 1
    topic = text_of(buf[p : p + topic_length])
    p += topic_length + 2
    end: i64 = at + i64(read_i32_be(buf, at))
    store_timestamp: i64 = read_i64_be(buf, born_end)
    uniq_key, keys, tags, delay, multi = _marks(buf, p, end)
    d = Dispatch(
        topic,
        queue_id=i64(read_i32_be(buf, at + 12)),
        queue_offset=read_i64_be(buf, at + 20),
        physical_offset=read_i64_be(buf, at + OFFSET_PHYSICAL),
        size=end - at,
        tags_code=_tags_code(topic, tags, delay, store_timestamp, shape),
        store_timestamp=store_timestamp,
        sys_flag=sys_flag,
    )
    d.uniq_key = uniq_key
    d.keys = keys
    d.tags = tags
    d.prepared_transaction_offset = read_i64_be(buf, store_end + 4)
    d.properties = buf[p:end]
    if multi and shape.multi_dispatch:
        d.multi = multi_queues(topic, d.properties)
    return d


def dispatch_of(record: Record, shape: StoreShape) -> Dispatch:
    """Return the dispatch of a decoded record."""
    properties = record.properties
    uniq_key, keys, tags, delay, multi = _marks(properties, 0, len(properties))
    d = Dispatch(
        record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        size=record.total_size,
        tags_code=_tags_code(record.topic, tags, delay, record.store_timestamp, shape),
        store_timestamp=record.store_timestamp,
        sys_flag=record.sys_flag,
    )
    d.uniq_key = uniq_key
    d.keys = keys
    d.tags = tags
    d.prepared_transaction_offset = record.prepared_transaction_offset
    d.properties = properties
    if multi and shape.multi_dispatch:
        d.multi = multi_queues(d.topic, properties)
    return d


def in_light_queue(d: Dispatch, multi: MultiQueue) -> Dispatch:
    """Return the dispatch of the same record for one of its light queues."""
    light = Dispatch(
        multi.topic,
        queue_id=LMQ_QUEUE_ID,
        queue_offset=multi.queue_offset,
        physical_offset=d.physical_offset,
        size=d.size,
        tags_code=d.tags_code,
        store_timestamp=d.store_timestamp,
        sys_flag=d.sys_flag,
    )
    light.uniq_key = d.uniq_key
    light.keys = d.keys
    light.tags = d.tags
    light.prepared_transaction_offset = d.prepared_transaction_offset
    light.properties = d.properties
    return light


def scan_records(buf: bytes, at: i64, limit: i64, shape: StoreShape, check_crc: bool, max_records: i64) -> Scanned:
    """Return the dispatches of at most `max_records` valid records, starting at byte `at`.

    Stops at the first record that is not GOOD. With forceVerifyPropCRC, `check_crc` checks the CRC of the whole record,
    which is in its properties, instead of the body's CRC.
    """
    found: list[Dispatch] = []
    count: i64 = 0
    whole_crc: bool = check_crc and shape.verify_property_crc
    while at < limit and count < max_records:
        checked = check_record(buf, at, limit, check_crc and not whole_crc)
        if checked.status != GOOD:
            return Scanned(found, at, checked.status, checked.size)
        if whole_crc and not crc_holds(buf, at, checked.size):
            return Scanned(found, at, BAD, 0)
        found.append(dispatch_at(buf, at, shape))
        count += 1
        at += checked.size
    return Scanned(found, at, GOOD, 0)


@final
class Passed:
    """The result of `pass_records`: count and end of the valid records, and their newest store time (ms)."""

    def __init__(self, count: i64, end: i64, store_timestamp: i64) -> None:
        self.count: i64 = count
        self.end: i64 = end
        self.store_timestamp: i64 = store_timestamp


def pass_records(buf: bytes, at: i64, base: i64, check_crc: bool, last: i64, until: i64) -> Passed:
    """Check records that need no dispatch, starting at byte `at`: they start by `last` and end by `until`.

    Takes a quarter of the time of `scan_records`, which continues at the returned end. Stops after the last such
    record, or at a record that is invalid or whose physical offset does not match its position. `last` and `until` are
    physical offsets, and `base` is the physical offset of byte 0.
    """
    count: i64 = 0
    newest: i64 = 0
    limit: i64 = len(buf)
    while base + at <= last and limit - at >= MIN_RECORD_SIZE:
        size: i64 = i64(read_i32_be(buf, at))
        if size > limit - at or base + at + size > until or not is_good(buf, at, limit, check_crc):
            break
        if read_i64_be(buf, at + OFFSET_PHYSICAL) != base + at:
            break
        stored_at: i64 = read_i64_be(buf, at + 68 if i64(read_i32_be(buf, at + 36)) & BORN_HOST_V6 else at + 56)
        if stored_at > newest:
            newest = stored_at
        count += 1
        at += size
    return Passed(count, at, newest)


def in_queue(d: Dispatch) -> bool:
    """Return whether the record gets a queue unit. Prepared and rolled-back messages do not."""
    bits: i64 = d.sys_flag & TRANSACTION_MASK
    return bits != TRANSACTION_PREPARED and bits != TRANSACTION_ROLLBACK


def in_index(d: Dispatch) -> bool:
    """Return whether the record's keys are indexed. The keys of rolled-back messages are not."""
    return d.sys_flag & TRANSACTION_MASK != TRANSACTION_ROLLBACK


def index_keys(topic: str, uniq_key: str, keys: str, tags: str, tags_in_index: bool) -> list[str]:
    """Return the key texts of a record in the order of their entries. A store of 4.9 has no entries for tags."""
    found: list[str] = []
    if uniq_key:
        found.append(topic + "#" + uniq_key)
    if keys:
        for key in keys.split(" "):
            if key:
                found.append(topic + "#" + key)
    if tags and tags_in_index:
        found.append(topic + "#T#" + tags)
    return found


def delay_level(delay: str) -> int:
    """Return the delay level in a property value, or 0 if it is not a number (Java's dispatch would stop at such a
    record)."""
    try:
        return int(delay)
    except ValueError:
        return 0


def _tags_code(topic: str, tags: str, delay: str, store_timestamp: i64, shape: StoreShape) -> i64:
    if delay and topic == SCHEDULE_TOPIC:
        # Queues of the schedule topic are read by delivery time, so this field contains that time.
        level = delay_level(delay)
        levels_ms = shape.delay_levels_ms
        if level > len(levels_ms):
            level = len(levels_ms)
        if level > 0:
            return delivery_time(levels_ms, level, store_timestamp)
    return java_hash(tags) if tags else 0


def _marks(buf: bytes, at: i64, end: i64) -> tuple[str, str, str, str, bool]:
    """Return the values of UNIQ_KEY, KEYS, TAGS and DELAY in the properties between two positions.

    The last result is whether INNER_MULTI_DISPATCH exists. The rules are the same as in `parse_properties`.
    """
    uniq_key = ""
    keys = ""
    tags = ""
    delay = ""
    multi = False
    while at < end:
        start: i64 = at
        equals: i64 = -1
        while at < end:
            c: i64 = buf[at]
            if c <= 2:
                if c == 2:
                    break
                if c == 1 and equals < 0:
                    equals = at
            at += 1
        length: i64 = equals - start
        if length >= 4 and length <= 8 and equals < at - 1:
            head: i64 = i64(read_i32_be(buf, start))
            if length == 4:
                if head == _TAGS_4:
                    tags = text_of(buf[equals + 1 : at])
                elif head == _KEYS_4:
                    keys = text_of(buf[equals + 1 : at])
            elif length == 8:
                if read_i64_be(buf, start) == _UNIQ_KEY_8:
                    uniq_key = text_of(buf[equals + 1 : at])
            elif length == 5 and head == _DELA_4 and buf[start + 4] == _Y:
                delay = text_of(buf[equals + 1 : at])
        elif length == _MULTI_LENGTH and i64(read_i32_be(buf, start)) == _INNE_4:
            if read_i64_be(buf, start + 12) == _DISPATCH_8:
                multi = True
        at += 1
    return uniq_key, keys, tags, delay, multi
