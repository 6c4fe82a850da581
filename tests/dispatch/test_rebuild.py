"""Rules of the rebuild that the golden stores do not show: gaps, repeats, pre-blank, bad records, full files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bolide.dispatch.rebuild import FilterEntry, Rebuild, rebuild
from bolide.layout.ext_unit import ext_offset, read_ext_unit
from bolide.layout.index_file import decode_index_header, entry_position, read_entry
from bolide.layout.queue_unit import PRE_BLANK, read_unit
from bolide.layout.record import encode_blank
from bolide.layout.shape import StoreShape
from tests.layout.records import FIELDS
from tests.layout.strategies import encoded
from tests.layout.vectors import vectors

SHAPE = StoreShape(
    commit_log_segment_size=1024, consume_queue_segment_size=100, index_slots=10, index_entries=4, store_version="4.9"
)


def log(*records: dict[str, Any]) -> bytes:
    """Records back to back with their true physical offsets."""
    data = b""
    for change in records:
        data += encoded({**FIELDS, "physical_offset": len(data), "queue_offset": 0, **change})
    return data


def units(result: Rebuild) -> list[tuple[int, int, int]]:
    (queue,) = result.queues.values()
    data = b"".join(data for _, data in queue.segments())
    return [read_unit(data, at) for at in range(0, len(data), 20)]


def test_a_queue_that_begins_late_is_filled_up_to_there() -> None:
    result = rebuild([(0, log({"queue_offset": 7}, {"queue_offset": 8}))], SHAPE)
    (queue,) = result.queues.values()
    assert [start for start, _ in queue.segments()] == [100]
    assert queue.segments()[0][1][:40] == PRE_BLANK * 2
    assert queue.end == 180
    assert result.skipped == []


def test_repeats_are_left_out_and_gaps_are_written_at_the_end() -> None:
    data = log({}, {"queue_offset": 1}, {"queue_offset": 1}, {"queue_offset": 5})
    size = len(data) // 4
    result = rebuild([(0, data)], SHAPE)
    assert [unit[0] for unit in units(result)] == [0, size, 3 * size]
    assert [(s.physical_offset, s.reason) for s in result.skipped] == [
        (2 * size, "topic queue 1 has a unit for queue offset 1 already"),
        (3 * size, "topic queue 1 ends at 2, the record says 5"),
    ]


def test_a_record_dispatched_again_changes_nothing_in_its_queue() -> None:
    result = Rebuild(SHAPE)
    data = log({}, {"queue_offset": 1})
    result.feed(0, data)
    result.feed(0, data)
    assert len(units(result)) == 2
    assert len(result.skipped) == 2


def test_prepared_and_rolled_back_records_have_no_unit() -> None:
    result = rebuild([(0, log({"sys_flag": 4}, {"sys_flag": 12}))], SHAPE)
    assert result.queues == {}
    assert result.records == 2


def test_bad_records_are_skipped_by_their_size_or_end_the_segment() -> None:
    good = log({})
    bad = (len(good) + 2).to_bytes(4, "big") + good[4:] + b"\0\0"
    after = encoded({**FIELDS, "physical_offset": len(good + bad), "queue_offset": 1})
    result = rebuild([(0, good + bad + after + b"junk" + bytes(50)), (1024, bytes(20))], SHAPE)
    assert [unit[0] for unit in units(result)] == [0, len(good + bad)]
    assert [(s.physical_offset, s.size) for s in result.skipped] == [
        (len(good), len(bad)),
        (len(good + bad + after), 54),
    ]
    assert result.end_offset == len(good + bad + after)


def test_the_blank_ends_a_segment() -> None:
    first = log({})
    second = encoded({**FIELDS, "physical_offset": 1024, "queue_offset": 1})
    result = rebuild(
        [(0, (first + encode_blank(1024 - len(first)) + b"old bytes").ljust(1024, b"x")), (1024, second)], SHAPE
    )
    assert [unit[0] for unit in units(result)] == [0, 1024]
    assert result.skipped == []


def test_a_full_index_file_hands_its_end_to_the_next() -> None:
    keyed = [
        {"properties": f"KEYS\x01k{i} k".encode(), "queue_offset": i, "store_timestamp": 10_000 + 5_000 * i}
        for i in range(3)
    ]
    result = rebuild([(0, log(*keyed))], SHAPE)
    first, second = (file.encode() for file in result.index_files)
    header = decode_index_header(first)
    assert (header.index_count, header.begin_timestamp, header.end_timestamp) == (4, 10_000, 15_000)
    header = decode_index_header(second)
    assert (header.index_count, header.begin_timestamp, header.end_timestamp) == (4, 15_000, 20_000)
    assert read_entry(second, entry_position(10, 2)).seconds == 5


def test_the_first_time_in_a_later_index_file_counts_from_the_end_of_the_file_before() -> None:
    keyed = [
        {"properties": b"KEYS\x01a b c", "queue_offset": i, "store_timestamp": 10_000 + 5_000 * i} for i in range(2)
    ]
    result = rebuild([(0, log(*keyed))], SHAPE)
    second = result.index_files[1].encode()
    assert [read_entry(second, entry_position(10, n)).seconds for n in (1, 2, 3)] == [5, 0, 0]


def test_a_new_index_file_begins_at_a_record_without_keys() -> None:
    keyed = [{"properties": b"KEYS\x01a b c"}, {"properties": b"", "queue_offset": 1}]
    result = rebuild([(0, log(*keyed))], SHAPE)
    assert [file.header.index_count for file in result.index_files] == [4, 1]
    assert result.index_files[1].header.end_physical_offset == 0


@pytest.mark.parametrize("vector", vectors()["index_files"][::2], ids=lambda v: v["version"])
def test_javas_index_file(vector: dict[str, Any]) -> None:
    times = vectors()["search_by_time"][0]["store_times"]
    size = vector["entries"]["rows"][-1][1] // 7
    shape = StoreShape(index_slots=1000, store_version="4.9" if vector["version"] == "4.9.7" else "5.5")
    result = Rebuild(shape)
    for i in range(8):
        tail = b"" if vector["version"] == "4.9.7" else b"\2"
        properties = f"TAGS\x01tg\x02KEYS\x01k{i} kk\x02UNIQ_KEY\x01U{i}".encode() + tail
        fields = {**FIELDS, "topic": b"T", "physical_offset": i * size, "queue_offset": i, "properties": properties}
        result.feed(i * size, encoded({**fields, "store_timestamp": times[i]}))
    data = result.index_files[0].encode()
    entries = [read_entry(data, entry_position(1000, n + 1)) for n in range(len(vector["entries"]["rows"]))]
    assert [[e.key_hash, e.physical_offset, e.seconds, e.previous] for e in entries] == vector["entries"]["rows"]
    header = decode_index_header(data)
    assert {
        "beginTimestamp": header.begin_timestamp,
        "endTimestamp": header.end_timestamp,
        "beginPhyOffset": header.begin_physical_offset,
        "endPhyOffset": header.end_physical_offset,
        "usedSlots": header.slot_count,
        "indexCount": header.index_count,
    } == vector["header"]


def test_extension_units_carry_the_filters_bits() -> None:
    shape = StoreShape(
        consume_queue_ext_segment_size=64, enable_consume_queue_ext=True, enable_calc_filter_bit_map=True
    )
    filters = {"topic": [FilterEntry((0, 9), lambda properties, tags: properties.get("a") == "b" and tags == "t")]}
    taken = {"properties": b"a\x01b\x02TAGS\x01t\x02"}
    result = rebuild([(0, log(taken, {"queue_offset": 1}, {"topic": b"other"}))], shape, filters)
    queue = result.queues["topic", 1]
    assert [ext_offset(tags_code) for _, _, tags_code in units_of(queue)] == [0, 64]
    (_, first), (start, second) = queue.ext_segments()
    assert start == 64
    assert first[34:36] == b"\xff\xff"
    assert read_ext_unit(first, 0).bitmap.hex() == "0102" + "00" * 12
    assert read_ext_unit(first, 0).tags_code == ord("t")
    assert read_ext_unit(second, 0).bitmap == bytes(14)
    assert read_ext_unit(result.queues["other", 1].ext_segments()[0][1], 0).bitmap == b""


def units_of(queue: Any) -> list[tuple[int, int, int]]:
    data = b"".join(data for _, data in queue.segments())
    return [read_unit(data, at) for at in range(0, len(data), 20)]


def test_records_of_a_deleted_topic_are_in_no_queue() -> None:
    """Its next messages begin at queue offset 0 again; the index keeps the old entries, as in a broker."""
    old = [{"properties": b"KEYS\x01a", "queue_offset": number} for number in range(2)]
    mark = len(log(*old))
    data = log(*old, {"properties": b"KEYS\x01b"}, {"topic": b"Other"})
    result = rebuild([(0, data)], SHAPE, deleted={"topic": mark, "Other": 0})
    (queue,) = [queue for (topic, _), queue in result.queues.items() if topic == "topic"]
    assert [read_unit(content, 0)[0] for _, content in queue.segments()] == [mark]
    kept = rebuild([(0, data)], SHAPE)
    assert [file.encode() for file in result.index_files] == [file.encode() for file in kept.index_files]
    assert ("Other", 1) in result.queues and result.skipped == []


def test_a_deleted_light_queue_has_none_of_the_records_before() -> None:
    shape = replace(SHAPE, multi_dispatch=True)
    listed = b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02INNER_MULTI_QUEUE_OFFSET\x010\x02"
    data = log({"properties": listed})
    assert set(rebuild([(0, data)], shape).queues) == {("topic", 1), ("%LMQ%a", 0)}
    assert set(rebuild([(0, data)], shape, deleted={"%LMQ%a": len(data)}).queues) == {("topic", 1)}
