"""Records that may come from the disk are compared with their CRCs, and those from memory are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bolide.layout.hashes import tags_code
from bolide.layout.record import Record, decode_records
from bolide.store.errors import RecordDamaged
from bolide.store.options import StoreOptions
from bolide.store.reading.read import QueueReader
from bolide.store.reading.read_result import FOUND, ReadResult
from bolide.store.reading.record_runs import RecordRuns
from tests.store.parts import SHAPE, ColdFiles, Parts, put_of

SHAPE_OF_ONE_FILE = replace(SHAPE, commit_log_segment_size=1 << 20, consume_queue_segment_size=20_000)
LARGE = b"x" * 5000


def filled(root: Path, body: bytes = b"body", **more: object) -> Parts:
    """A store of nine messages with tags a, b, c in turn; another queue has a message after each."""
    parts = Parts(root, shape=SHAPE_OF_ONE_FILE, **more)  # type: ignore[arg-type]  # the keywords of Parts, passed through
    for number in range(9):
        parts.append(put_of("T", 0, body, tags="abc"[number % 3], n=str(number)))
        parts.append(put_of("T", 1, b"between"))
    parts.dispatch()
    return parts


def damage(parts: Parts, offset: int) -> None:
    """Flip a bit in the body of a message of queue 0."""
    unit = parts.queues.find_or_create("T", 0).unit(offset)
    assert unit is not None
    path = Path(parts.log.segments.path_at(0))
    data = bytearray(path.read_bytes())
    data[unit[0] + 88] ^= 1
    path.write_bytes(data)


def read(parts: Parts, offset: int, count: int = 32, tags: str = "", by_properties: bool = False) -> ReadResult:
    codes = {tags_code(tag) for tag in tags} if tags else None
    predicate = (lambda raw: b"n\x01" in raw) if by_properties else None
    reader = QueueReader(parts.log, StoreOptions())
    return reader.read(parts.queues.find_or_create("T", 0), offset, count, 1 << 30, codes, predicate)


def places_of(parts: Parts) -> list[tuple[int, int]]:
    """Physical offset and size of each message of queue 0."""
    units = [parts.queues.find_or_create("T", 0).unit(offset) for offset in range(9)]
    return [(unit[0], unit[1]) for unit in units if unit is not None]


def offsets(result: ReadResult) -> list[int]:
    return [record.queue_offset for data in result.buffers for record in decode_records(bytes(data))]


@pytest.mark.parametrize("by_properties", [False, True])
@pytest.mark.parametrize("body", [b"body", LARGE])
def test_pull_ends_before_a_damaged_record_and_fails_at_it(tmp_path: Path, body: bytes, by_properties: bool) -> None:
    parts = filled(tmp_path, body)
    parts.log.memory_from = parts.log.written_offset
    damage(parts, 4)
    result = read(parts, 0, by_properties=by_properties)
    assert (result.status, offsets(result), result.message_count) == (FOUND, [0, 1, 2, 3], 4)
    assert result.next_begin_offset == 4
    with pytest.raises(RecordDamaged, match=r"offset 4 of queue T:0 is damaged \(.*not match its CRC.*store verify"):
        read(parts, 4, by_properties=by_properties)
    assert parts.log.damaged == 1
    assert offsets(read(parts, 5, by_properties=by_properties)) == [5, 6, 7, 8]


def test_damaged_record_that_no_filter_wants_stops_nobody(tmp_path: Path) -> None:
    parts = filled(tmp_path)
    parts.log.memory_from = parts.log.written_offset
    damage(parts, 4)
    assert offsets(read(parts, 0, tags="a")) == [0, 3, 6]
    result = read(parts, 0, tags="b")
    assert (offsets(result), result.next_begin_offset) == ([1], 2)
    with pytest.raises(RecordDamaged, match="offset 4 of queue T:0"):
        read(parts, 2, tags="b")


def test_record_whose_lengths_are_damaged_is_not_delivered(tmp_path: Path) -> None:
    parts = filled(tmp_path)
    parts.log.memory_from = parts.log.written_offset
    unit = parts.queues.find_or_create("T", 0).unit(2)
    assert unit is not None
    path = Path(parts.log.segments.path_at(0))
    data = bytearray(path.read_bytes())
    data[unit[0] + 84] ^= 1  # the length of the body
    path.write_bytes(data)
    assert read(parts, 0).next_begin_offset == 2
    with pytest.raises(RecordDamaged, match="offset 2 of queue T:0 is damaged: "):
        read(parts, 2)


def test_own_records_are_checked_once_out_of_memory(tmp_path: Path) -> None:
    files = ColdFiles()
    parts = filled(tmp_path, files=files)
    damage(parts, 4)
    assert parts.log.checks_below() == 0
    assert len(offsets(read(parts, 0))) == 9  # nobody reads bytes twice that the kernel still has from the write
    files.cold = True
    for queue in (0, 1):
        for extent in [parts.queues.find_or_create("T", queue).extent(0, 20)]:
            files.warm(extent.path, extent.offset, extent.size)
    cold = read(parts, 0).cold
    assert cold
    assert parts.log.checks_below() == parts.log.written_offset
    for extent in cold:
        files.warm(extent.path, extent.offset, extent.size)
    assert offsets(read(parts, 0)) == [0, 1, 2, 3]


def test_tail_in_memory_is_not_checked(tmp_path: Path) -> None:
    parts = filled(tmp_path, options=StoreOptions(tail_cache_bytes=1 << 20))
    parts.log.memory_from = parts.log.written_offset
    assert parts.log.checks_below() == 0
    parts.log.tail.clear()
    assert parts.log.checks_below() == parts.log.written_offset


def test_record_that_is_stored_again_is_checked(tmp_path: Path) -> None:
    parts = filled(tmp_path)
    parts.log.memory_from = parts.log.written_offset
    damage(parts, 4)
    runs, places = RecordRuns(parts.log), places_of(parts)
    assert runs.bring(places, 0, True)
    found: list[Record | None] = [runs.intact(*place) for place in places[:4]]
    assert [record.queue_offset for record in found if record is not None] == [0, 1, 2, 3]
    with pytest.raises(RecordDamaged, match="of topic T, queue 0, offset 4, does not match its CRC"):
        runs.intact(*places[4])
    assert runs.record(*places[4]) is not None


def test_record_that_is_read_from_the_disk_without_a_load_is_checked(tmp_path: Path) -> None:
    files = ColdFiles()
    parts = filled(tmp_path, files=files)
    damage(parts, 4)
    runs, places = RecordRuns(parts.log), places_of(parts)
    files.cold = True
    assert runs.bring(places, 4, True)
    with pytest.raises(RecordDamaged, match="offset 4, does not match its CRC"):
        runs.intact(*places[4])
