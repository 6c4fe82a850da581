"""Finds the queue offset of a time, like ConsumeQueue.getOffsetInQueueByTime of RocketMQ 5.x and 4.x.

A unit contains no time. Its time is the store timestamp of its record, so each step of the search reads the log and may
wait for the disk. Units that refer below the start of the log are treated as the oldest.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be, read_i64_be

from bolide.layout.queue_unit import UNIT_SIZE
from bolide.layout.sysflag import BORN_HOST_V6
from bolide.store.log.commit_log import CommitLog
from bolide.store.queues.consume_queue import ConsumeQueue

UNKNOWN: Final = -1
_HEAD: Final = 76
_SYS_FLAG: Final = 36


def record_store_time(log: CommitLog, physical_offset: int, size: int) -> int:
    """Return the store timestamp (ms) of the record at an offset of the log, or -1 if it is not in the log."""
    if physical_offset < log.segments.min_offset or size <= 0 or physical_offset + size > log.written_offset:
        return UNKNOWN
    head = log.segments.read(physical_offset, _HEAD)
    if len(head) < _HEAD:
        return UNKNOWN
    return read_i64_be(head, 68 if read_i32_be(head, _SYS_FLAG) & BORN_HOST_V6 else 56)


def store_time_at(log: CommitLog, queue: ConsumeQueue | None, queue_offset: int) -> int:
    """Return the store timestamp (ms) of the message at a queue offset, or -1 if it does not exist or has expired."""
    unit = queue.unit(queue_offset) if queue is not None else None
    return record_store_time(log, unit[0], unit[1]) if unit is not None else UNKNOWN


def earliest_store_time(log: CommitLog, queue: ConsumeQueue | None) -> int:
    """Return the store timestamp (ms) of the oldest message of the queue, or -1 if it has none."""
    return store_time_at(log, queue, queue.min_offset) if queue is not None else UNKNOWN


def offset_by_time(
    log: CommitLog, queue: ConsumeQueue | None, timestamp: int, upper: bool = False, nearest: bool = False
) -> int:
    """Return the queue offset of `timestamp` (ms), or 0 for an unknown or empty queue.

    As in 5.x, that is the first message stored at or after the time, or the end if all messages are older. With
    `upper`, it is the last message stored at or before the time. With `nearest`, as in 4.x, it is the message nearest
    in time within one file.
    """
    if queue is None or queue.max_offset == 0:
        return 0
    if nearest:
        return _nearest(log, queue, timestamp)
    low = int(queue.min_offset)
    high = int(queue.max_offset)
    if low >= high:
        return high - 1 if upper else high  # all messages have expired
    return _upper(log, queue, timestamp, low, high) if upper else _lower(log, queue, timestamp, low, high)


def _lower(log: CommitLog, queue: ConsumeQueue, timestamp: int, low: int, high: int) -> int:
    first = low
    while low < high:
        middle = (low + high) // 2
        if store_time_at(log, queue, middle) >= timestamp:
            high = middle
        else:
            low = middle + 1
    if low == first and store_time_at(log, queue, first) > timestamp:
        # All messages are newer. As in Java, return the first unit of the file, although its record may be deleted.
        return int(queue.file_start(first))
    return low


def _upper(log: CommitLog, queue: ConsumeQueue, timestamp: int, low: int, high: int) -> int:
    first = low
    while low < high:
        middle = (low + high) // 2
        if store_time_at(log, queue, middle) > timestamp:
            high = middle
        else:
            low = middle + 1
    return low - 1 if low > first else 0


def _nearest(log: CommitLog, queue: ConsumeQueue, timestamp: int) -> int:
    start = _file_by_change(queue, timestamp)
    low = max(int(queue.min_offset), start)
    high = min(int(queue.max_offset), start + int(queue.units_per_file)) - 1
    left = right = UNKNOWN
    left_time = right_time = UNKNOWN
    while high >= low:
        # Java bisects within the file, so offsets are relative to its start.
        middle = start + (low - start + high - start) // 2
        unit = queue.unit(middle)
        if unit is None:
            return 0
        if unit[0] < log.segments.min_offset:
            low = middle + 1
            left = middle
            continue
        stored = record_store_time(log, unit[0], unit[1])
        if stored < 0:
            return 0
        if stored == timestamp:
            return middle
        if stored > timestamp:
            high = middle - 1
            right, right_time = middle, stored
        else:
            low = middle + 1
            left, left_time = middle, stored
    if left_time == UNKNOWN:
        return right if right != UNKNOWN else start
    if right_time == UNKNOWN:
        return left
    return right if abs(timestamp - left_time) > abs(timestamp - right_time) else left


def _file_by_change(queue: ConsumeQueue, timestamp: int) -> int:
    """Return the first queue offset of the file in which 4.x searches: the first one changed at or after the time, else
    the last."""
    segments = queue.segments
    starts = segments.segment_starts()
    for start in starts:
        if segments.files.modified_ms(segments.path_at(start)) >= timestamp:
            return start // UNIT_SIZE
    return starts[-1] // UNIT_SIZE if starts else 0
