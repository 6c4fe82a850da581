"""What follows from one record: both ways to it agree with the parser, and the key rules of the versions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.dispatch.row import dispatch_at, dispatch_of, in_index, in_queue, index_keys, pass_records, scan_records
from bolide.layout.hashes import tags_code
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import BAD, BAD_SIZED, BLANK, GOOD, decode_record, encode_blank
from bolide.layout.shape import StoreShape
from tests.layout.records import FIELDS
from tests.layout.strategies import encoded, record_fields

SHAPE = StoreShape()


@given(record_fields())
def test_dispatch_is_what_the_parser_says(fields: dict[str, Any]) -> None:
    data = encoded(fields)
    record = decode_record(data, 0)
    properties = parse_properties_bytes(record.properties)
    for d in (dispatch_at(b"ab" + data + b"c", 2, SHAPE), dispatch_of(record, SHAPE)):
        assert (d.topic, d.size, d.properties) == (record.topic, len(data), record.properties)
        assert d.uniq_key == properties.get("UNIQ_KEY", "")
        assert d.keys == properties.get("KEYS", "")
        assert d.tags == properties.get("TAGS", "")
        for name in ("queue_id", "queue_offset", "physical_offset", "store_timestamp", "sys_flag"):
            assert getattr(d, name) == fields[name], name
        assert d.prepared_transaction_offset == fields["prepared_transaction_offset"]
        if d.topic != "SCHEDULE_TOPIC_XXXX":
            assert d.tags_code == tags_code(d.tags)


@pytest.mark.parametrize(
    ("topic", "level", "expected"),
    [
        ("SCHEDULE_TOPIC_XXXX", "3", 10_000),
        ("SCHEDULE_TOPIC_XXXX", "99", 7_200_000),
        ("SCHEDULE_TOPIC_XXXX", "0", None),
        ("SCHEDULE_TOPIC_XXXX", "x", None),
        ("T", "3", None),
    ],
)
def test_schedule_queues_hold_the_time_of_delivery(topic: str, level: str, expected: int | None) -> None:
    properties = f"TAGS\x01a\x02DELAY\x01{level}".encode()
    data = encoded({**FIELDS, "topic": topic.encode(), "properties": properties, "store_timestamp": 1_000_000})
    assert dispatch_at(data, 0, SHAPE).tags_code == (97 if expected is None else 1_000_000 + expected)


@pytest.mark.parametrize(
    ("bits", "queue", "index"), [(0, True, True), (4, False, True), (8, True, True), (12, False, False)]
)
def test_transaction_bits(bits: int, queue: bool, index: bool) -> None:
    d = dispatch_at(encoded({**FIELDS, "sys_flag": bits | 1}), 0, SHAPE)
    assert (in_queue(d), in_index(d)) == (queue, index)


def test_index_keys() -> None:
    assert index_keys("T", "U", " a  b ", "x y", True) == ["T#U", "T#a", "T#b", "T#T#x y"]
    assert index_keys("T", "U", "a", "x", False) == ["T#U", "T#a"]
    assert index_keys("T", "", "", "", True) == []


@given(st.integers(1, 3), st.integers(0, 5))
def test_scan_stops_at_its_limit(limit: int, count: int) -> None:
    data = encoded(FIELDS) * count
    scanned = scan_records(data, 0, len(data), SHAPE, True, limit)
    assert (len(scanned.dispatches), scanned.status) == (min(limit, count), GOOD)
    assert scanned.end == min(limit, count) * len(encoded(FIELDS))


def test_scan_says_what_stopped_it() -> None:
    one = encoded(FIELDS)
    broken = len(one).to_bytes(4, "big") + one[4:-3] + b"\1" + one[-2:]
    for rest, status, size in (
        (encode_blank(8), BLANK, 8),
        (bytes(100), BAD, 0),
        ((len(one) + 1).to_bytes(4, "big") + one[4:] + b"\0", BAD_SIZED, len(one) + 1),
        (broken[: len(one) - 1], BAD, 0),
    ):
        scanned = scan_records(one + rest, 0, len(one + rest), SHAPE, True, 10)
        assert (scanned.end, scanned.status, scanned.size) == (len(one), status, size)


@given(st.lists(record_fields(), max_size=4), st.data())
def test_records_are_passed_as_far_as_they_are_known_and_good(
    records: list[dict[str, Any]], data: st.DataObject
) -> None:
    base = 1000
    log, ends = b"", [0]
    for fields in records:
        log += encoded({**fields, "physical_offset": base + len(log)})
        ends.append(len(log))
    last, until = (data.draw(st.integers(base - 1, base + len(log) + 1)) for _ in range(2))
    spoilt = data.draw(st.integers(-1, len(log) - 1)) if log else -1
    if spoilt >= 0:
        log = log[:spoilt] + bytes([log[spoilt] ^ 0x55]) + log[spoilt + 1 :]
    scanned = scan_records(log, 0, len(log), SHAPE, True, 10).dispatches
    count = 0
    for d, begin in zip(scanned, ends, strict=False):
        if d.physical_offset != base + begin or base + begin > last or base + begin + d.size > until:
            break
        count += 1
    passed = pass_records(log, 0, base, True, last, until)
    assert (passed.count, passed.end) == (count, sum(d.size for d in scanned[:count]))
    assert passed.store_timestamp == max([0, *(d.store_timestamp for d in scanned[:count])])
