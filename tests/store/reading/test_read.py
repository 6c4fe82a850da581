"""The pull at store level: each status, each limit, filters, removed files, cold bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bolide.layout.hashes import tags_code
from bolide.layout.record import decode_records
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queue import ConsumeQueue
from bolide.store.reading.read import QueueReader
from bolide.store.reading.read_result import (
    FOUND,
    MESSAGE_WAS_REMOVING,
    NO_MATCHED_MESSAGE,
    NO_MESSAGE_IN_QUEUE,
    OFFSET_FOUND_NULL,
    OFFSET_OVERFLOW_BADLY,
    OFFSET_OVERFLOW_ONE,
    OFFSET_TOO_SMALL,
    ReadResult,
    status_name,
)
from tests.store.parts import SHAPE, ColdFiles, Parts, TracedFiles, put_of

BIG = replace(SHAPE, commit_log_segment_size=1 << 20, consume_queue_segment_size=20_000)
EVERYTHING = 1 << 30


def filled(root: Path, count: int, body: bytes = b"0123456789", **more: object) -> tuple[Parts, ConsumeQueue]:
    """A store whose queue T 0 holds `count` messages with tags a, b, c in turn."""
    parts = Parts(root, **{"shape": BIG, **more})  # type: ignore[arg-type]  # the keywords of Parts, passed through
    for number in range(count):
        parts.append(put_of("T", 0, body, tags="abc"[number % 3], n=str(number)))
    parts.dispatch()
    return parts, parts.queues.find_or_create("T", 0)


def read(
    parts: Parts,
    queue: ConsumeQueue | None,
    offset: int,
    count: int = 32,
    tags: str = "",
    n: set[str] | None = None,
    options: StoreOptions | None = None,
    max_bytes: int = EVERYTHING,
    memory: int = 0,
) -> ReadResult:
    codes = {tags_code(tag) for tag in tags} if tags else None
    predicate = None if n is None else lambda raw: any(f"n\x01{value}\x02".encode() in raw + b"\x02" for value in n)
    reader = QueueReader(parts.log, options or StoreOptions(), memory)
    return reader.read(queue, offset, count, max_bytes, codes, predicate)


def offsets(result: ReadResult) -> list[int]:
    return [record.queue_offset for data in result.buffers for record in decode_records(bytes(data))]


@pytest.mark.parametrize(
    ("offset", "status", "following"),
    [
        (-1, OFFSET_TOO_SMALL, 0),
        (10, OFFSET_OVERFLOW_ONE, 10),
        (11, OFFSET_OVERFLOW_BADLY, 10),
        (1 << 62, OFFSET_OVERFLOW_BADLY, 10),
        (9, FOUND, 10),
    ],
)
def test_status_by_offset(tmp_path: Path, offset: int, status: int, following: int) -> None:
    parts, queue = filled(tmp_path, 10)
    result = read(parts, queue, offset)
    assert status_name(result.status) == status_name(status)
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (following, 0, 10)


def test_a_queue_without_messages(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    for queue in (None, parts.queues.find_or_create("T", 0)):
        result = read(parts, queue, 5)
        assert (result.status, result.next_begin_offset, result.max_offset) == (NO_MESSAGE_IN_QUEUE, 0, 0)


def test_adjacent_records_are_one_buffer(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 10)
    parts.append(put_of("T", 1, b"between"))
    parts.append(put_of("T", 0, b"after"))
    parts.dispatch()
    result = read(parts, queue, 2)
    assert offsets(result) == list(range(2, 11))
    assert len(result.buffers) == 1
    assert (result.message_count, result.size) == (9, sum(map(len, result.buffers)))
    assert result.next_begin_offset == 11


@pytest.mark.parametrize("body", [b"small", b"large" * 4000], ids=["small", "large"])
@pytest.mark.parametrize("between", [10, 15_000, 40_000])
def test_large_records_are_handed_on_uncopied_and_small_ones_in_one_buffer(
    tmp_path: Path, body: bytes, between: int
) -> None:
    files = TracedFiles()
    parts = Parts(tmp_path, shape=BIG, files=files)
    for number in range(10):
        parts.append(put_of("T", 0, body, n=str(number)))
        parts.append(put_of("T", 1, bytes(between)))
    parts.dispatch()
    result = read(parts, parts.queues.find_or_create("T", 0), 0)
    assert [record.body for record in decode_records(b"".join(result.buffers))] == [body] * 10
    if len(body) < 16_384:
        assert [len(data) for data in result.buffers] == [result.size]
        return
    for data in result.buffers:
        files.source(data)


@pytest.mark.parametrize("n", [{"0", "1", "9"}, {"5"}], ids=["many", "one"])
def test_filtered_read_retains_only_its_records(tmp_path: Path, n: set[str]) -> None:
    parts, queue = filled(tmp_path, 10, body=bytes(3000))
    parts.append(put_of("T", 1, b"between"))
    parts.append(put_of("T", 0, b"after", n="5"))
    parts.dispatch()
    result = read(parts, queue, 0, n=n)
    assert result.message_count == (3 if "0" in n else 2)
    assert [type(data) for data in result.buffers] == [bytes]
    assert len(result.buffers[0]) == result.size


def test_count_and_size_limits_in_memory(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 50)
    assert read(parts, queue, 0, 5).message_count == 5
    assert read(parts, queue, 0, 100).message_count == 32
    one = read(parts, queue, 0, 1).size
    assert read(parts, queue, 0, 32, max_bytes=one * 3).message_count == 3
    assert read(parts, queue, 0, 32, max_bytes=1).message_count == 1, "the first is returned whatever its size"
    limited = StoreOptions(max_transfer_bytes_on_message_in_memory=one * 4 + 1)
    assert read(parts, queue, 0, options=limited).message_count == 4
    assert read(parts, queue, 0, 0).message_count == 1


def test_less_is_read_when_far_behind(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 50)
    far = StoreOptions(access_message_in_memory_max_ratio=40)
    result = read(parts, queue, 0, options=far, memory=1000)
    assert result.message_count == 8
    assert result.suggest_slave
    near = read(parts, queue, 47, options=far, memory=1000)
    assert (near.message_count, near.suggest_slave) == (3, False)
    size = result.size // 8
    less = StoreOptions(access_message_in_memory_max_ratio=40, max_transfer_bytes_on_message_in_disk=size * 2)
    assert read(parts, queue, 0, options=less, memory=1000).message_count == 2


def test_a_first_message_larger_than_the_limit(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 2, bytes(300_000))
    result = read(parts, queue, 0)
    assert (result.message_count, result.next_begin_offset) == (1, 1)


def test_tags_are_compared_by_hash(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 30)
    result = read(parts, queue, 0, 4, tags="b")
    assert offsets(result) == [1, 4, 7, 10]
    assert result.next_begin_offset == 11
    result = read(parts, queue, 11, 32, tags="ac")
    assert offsets(result) == [number for number in range(11, 30) if number % 3 != 1]


def test_a_negative_hash_is_compared_as_it_is(tmp_path: Path) -> None:
    """The hash has 32 bits and a sign, its unit 64: "unpaid" hashes below zero."""
    assert tags_code("unpaid") < 0
    parts, queue = filled(tmp_path, 3)
    reader = QueueReader(parts.log, StoreOptions())
    queue.put(9_000_000, 100, tags_code("unpaid"), queue.max_offset, 7, b"")
    result = reader.read(queue, 0, 32, EVERYTHING, {tags_code("unpaid")}, None)
    assert result.last_physical_offset == 9_000_000 and result.status != NO_MATCHED_MESSAGE
    result = reader.read(queue, 0, 32, EVERYTHING, {tags_code("unpaid") + (1 << 32)}, None)
    assert result.status == NO_MATCHED_MESSAGE


def test_read_without_match_moves_to_the_end(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 30)
    result = read(parts, queue, 3, tags="z")
    assert (result.status, result.next_begin_offset, result.buffers) == (NO_MATCHED_MESSAGE, 30, [])


def test_the_scan_ends_after_800_units(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 850, b"")
    assert read(parts, queue, 10, tags="z").next_begin_offset == 810
    assert read(parts, queue, 10, 830, tags="z").next_begin_offset == 840, "as many units as messages were asked for"


def test_the_scan_ends_with_the_queue_file(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 25, shape=replace(BIG, consume_queue_segment_size=200))
    result = read(parts, queue, 4)
    assert offsets(result) == [4, 5, 6, 7, 8, 9]
    assert read(parts, queue, 13, tags="z").next_begin_offset == 20


def test_a_predicate_sees_the_raw_properties(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 30)
    result = read(parts, queue, 0, n={"4", "5", "17"})
    assert offsets(result) == [4, 5, 17]
    assert (result.status, result.next_begin_offset) == (FOUND, 30)
    result = read(parts, queue, 18, n={"4"})
    assert (result.status, result.next_begin_offset) == (NO_MATCHED_MESSAGE, 30)


def test_units_of_deleted_log_files(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 60, bytes(200), shape=SHAPE)
    parts.log.segments.delete_before(8192)
    first = next(number for number in range(60) if (queue.unit(number) or (0,))[0] >= 8192)
    end = int(queue.next_file(first - 2))
    result = read(parts, queue, end - 10)
    survivors = list(range(first, end))
    assert offsets(result) == survivors
    assert result.status == (FOUND if survivors else MESSAGE_WAS_REMOVING)
    result = read(parts, queue, 0)
    assert (result.status, result.next_begin_offset) == (MESSAGE_WAS_REMOVING, 10)


def test_a_queue_file_that_went_missing(tmp_path: Path) -> None:
    parts, queue = filled(tmp_path, 25, shape=SHAPE)
    queue.flush()
    (tmp_path / "consumequeue/T/0" / f"{200:020d}").write_bytes(b"")
    parts.handles.close()
    result = read(parts, queue, 12)
    assert (result.status, result.next_begin_offset) == (OFFSET_FOUND_NULL, 20)


def load_until_warm(parts: Parts, queue: ConsumeQueue, files: ColdFiles, **how: object) -> tuple[ReadResult, int]:
    rounds = 0
    while True:
        result = read(parts, queue, 0, **how)  # type: ignore[arg-type]  # the keywords of read, passed through
        if not result.cold:
            return result, rounds
        rounds += 1
        for extent in result.cold:
            files.warm(extent.path, extent.offset, extent.size)


@pytest.mark.parametrize("how", [{}, {"tags": "ab"}, {"n": {"1", "5", "20"}}, {"tags": "b", "n": {"1", "4"}}])
def test_cold_bytes_are_named_and_then_read(tmp_path: Path, how: dict[str, object]) -> None:
    files = ColdFiles()
    parts, queue = filled(tmp_path, 30, files=files)
    expected = offsets(read(parts, queue, 0, **how))  # type: ignore[arg-type]  # as above
    assert expected
    queue.flush()
    files.cold = True
    result, rounds = load_until_warm(parts, queue, files, **how)
    assert offsets(result) == expected
    assert rounds <= 2, "the units, then everything of the log at once"


@pytest.mark.parametrize("tags", ["", "b"])
def test_tags_come_from_the_extension(tmp_path: Path, tags: str) -> None:
    files = ColdFiles()
    parts, queue = filled(tmp_path, 30, shape=replace(BIG, enable_consume_queue_ext=True), files=files)
    expected = [number for number in range(30) if not tags or number % 3 == 1]
    unit = queue.unit(1)
    assert unit is not None
    assert unit[2] < -(1 << 31)
    assert offsets(read(parts, queue, 0, tags=tags)) == expected
    queue.flush()
    files.cold = True
    result, rounds = load_until_warm(parts, queue, files, tags=tags)
    assert offsets(result) == expected
    assert rounds <= 3
