"""Pulls from a queue with odd units, by the native kernel and without it: the same bytes, and the same that is said.

Where the kernel was not built both take the same way, and nothing can differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from bolide.layout.shape import StoreShape
from bolide.store.disk.segments import HandleCache
from bolide.store.errors import StoreDamaged
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queue import ConsumeQueue
from bolide.store.reading.read import QueueReader
from bolide.store.reading.read_result import ReadResult
from bolide.testing.files import SimulatedFiles
from proof.fuzz.choices import NUMBERS, Choices
from proof.fuzz.target import KIB, MIB, Broken, Limits, Target

SEGMENTS: Final = (4 * KIB, 64 * KIB, 200 * KIB)
UNITS: Final = 120
PULLS: Final = 8
SIZES: Final = (100, 200, 300, 1, 2_000, 16 * KIB, 40 * KIB)
GAPS: Final = (0, 0, 100, 700, 16 * KIB - 1, 16 * KIB + 1, 64 * KIB + 1)
CODES: Final = (0, 1, -1, 97, 2**31 - 1, -(2**31), 2**31, 2**32 + 97, -(2**63))
TAGS: Final[tuple[set[int] | None, ...]] = (
    *(None, None, {97}, {97, -1}, {0}, set(), {-(2**31)}, {2**31}, {2**32 + 97, 1}, set(range(90, 106))),
    *(set(range(90, 107)), {2**70}),
)
ODD: Final = tuple(number for number in NUMBERS if -(2**63) <= number < 2**63)
ODD_SIZES: Final = tuple(number for number in ODD if -(2**31) <= number < 2**31)


class PartlyThere(SimulatedFiles):
    """A disk of which some ranges have no view, and some are not in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen = self.away = 0
        """As many ranges in sixteen."""

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        return None if _chance(offset, size) < self.away else super().read_warm(handle, size, offset)

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        return None if _chance(size, offset) < self.unseen else super().view_warm(handle, size, offset)


def _chance(one: int, other: int) -> int:
    return (one * 31 + other * 17 + one // 997) % 16


def pulls(data: bytes) -> None:
    """Both ways give the same."""
    compare(Choices(data))


def compare(choices: Choices) -> int:
    """Pull by both ways; the pulls that the kernel served. Raises `Broken` where they differ."""
    files = PartlyThere()
    log, queue = _filled(choices, files)
    options = StoreOptions(
        max_transfer_bytes_on_message_in_memory=choices.pick((256 * KIB, 1000, 8 * MIB)),
        max_transfer_count_on_message_in_memory=choices.pick((32, 1024, 1)),
        max_transfer_bytes_on_message_in_disk=choices.pick((64 * KIB, 1000, 8 * MIB)),
        max_transfer_count_on_message_in_disk=choices.pick((8, 1024, 1)),
        max_filter_message_size=choices.pick((16000, 1, 1 << 31)),
    )
    memory = choices.pick((0, 1000, 100_000))
    by_kernel, without = QueueReader(log, options, memory), QueueReader(log, options, memory)
    without.kernel = None
    files.unseen, files.away = choices.pick((0, 0, 3, 16)), choices.pick((0, 0, 1))
    served = 0
    for _ in range(1 + choices.below(PULLS)):
        offset = choices.below(int(queue.max_offset) + 3) - 1
        count = choices.pick((32, 1024, 1, 5, 2**31 - 1))
        most = choices.pick((1 << 30, 100, 1000, 50_000))
        tags = choices.pick(TAGS)
        found = _pulled(by_kernel, queue, offset, count, most, tags)
        other = _pulled(without, queue, offset, count, most, tags)
        if found != other:
            raise Broken(f"{offset, count, most, tags}: {found!r:.1500} by the kernel, {other!r:.1500} without")
        kernel = by_kernel.kernel
        if kernel is not None and isinstance(found, dict) and "cold" not in found and found["message_count"] > 0:
            served += kernel.found()[:2] == (found["message_count"], found["size"])
    return served


def _filled(choices: Choices, files: SimulatedFiles) -> tuple[CommitLog, ConsumeQueue]:
    """A log of any bytes, of which the first file may be gone, and a queue whose units are in order or not."""
    segment = choices.pick(SEGMENTS)
    shape = StoreShape(commit_log_segment_size=segment, consume_queue_segment_size=20 * choices.pick((200, 50)))
    handles = HandleCache(files, 8)
    log = CommitLog(files, "/log", shape, StoreOptions(tail_cache_bytes=choices.pick((0, 20 * KIB, 4 * MIB))), handles)
    end = 3 * segment - choices.below(segment)
    text = b"".join(at.to_bytes(4, "big") for at in range(end // 4 + 1))[:end]
    at = 0
    while at < end:
        piece = text[at : min(end, at - at % segment + segment, at + choices.pick((segment, 1000)))]
        log.segments.write(at, [piece])
        log.tail.add(at, piece)
        at += len(piece)
    log.start_at(end, 0, 0)
    if choices.flag():
        log.segments.delete_before(segment, 1)
    queue = ConsumeQueue(files, "/queue", "T", 0, shape.consume_queue_segment_size, handles)
    at = choices.below(3) * segment // 2
    for number in range(choices.below(UNITS) + 1):
        queue.max_physical_offset = -1  # whatever was put before, this unit is put, too
        at, size = at + choices.pick(GAPS), choices.pick(SIZES)
        if at % segment + size > segment:
            at += segment - at % segment
        if at + size > end:
            at = 0  # never so in a queue
        code = choices.pick(CODES)
        if choices.byte() == 255:
            queue.put(choices.pick(ODD), choices.pick(ODD_SIZES), code, number, 0, b"")
            continue
        queue.put(at, size, code, number, 0, b"")
        at += size
        if choices.byte() == 254:
            queue.flush()
    return log, queue


def _pulled(
    reader: QueueReader, queue: ConsumeQueue, offset: int, count: int, most: int, tags: set[int] | None
) -> dict[str, Any] | str:
    """What a pull gives: of bytes that are not in memory where they are, and nothing else."""
    try:
        result = reader.read(queue, offset, count, most, tags, None)
    except (StoreDamaged, OverflowError) as error:
        return repr(error)
    if result.cold:
        return {"cold": [(extent.path, extent.offset, extent.size) for extent in result.cold]}
    return _facts(result)


def _facts(result: ReadResult) -> dict[str, Any]:
    return {
        "buffers": [bytes(buffer) for buffer in result.buffers],
        "status": result.status,
        "next_begin_offset": result.next_begin_offset,
        "ends": (result.min_offset, result.max_offset),
        "size": result.size,
        "message_count": result.message_count,
        "last_physical_offset": result.last_physical_offset,
        "suggest_slave": result.suggest_slave,
    }


def seeds() -> Iterable[bytes]:
    """Units in order, and anything."""
    yield bytes(40)
    yield bytes((1, 0, 0, 0, 0, 100)) + bytes(400)
    yield bytes(range(256)) * 2
    yield bytes((7 * number) % 256 for number in range(600))


TARGETS: Final = (Target("pulls", pulls, seeds, Limits(memory=64 * MIB, steps=0), largest=900, cost=100.0),)
