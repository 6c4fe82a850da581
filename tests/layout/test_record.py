"""CommitLog records against Java's vectors, round trips over all fields, and Java's order of checks."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from bolide.layout.errors import RecordError
from bolide.layout.message_id import decode_host
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import (
    BAD,
    BAD_SIZED,
    BLANK,
    GOOD,
    MAGIC_V1,
    MAGIC_V2,
    body_matches,
    check_record,
    decode_intact,
    decode_record,
    decode_records,
    describe,
    encode_blank,
    find_record,
    is_good,
    properties_at,
    record_size,
)
from tests.layout.records import FIELDS
from tests.layout.strategies import encode, encoded, record_fields
from tests.layout.vectors import vectors


@pytest.mark.parametrize("vector", vectors()["commitlog_records"], ids=lambda v: v["topic"])
def test_javas_records(vector: dict[str, Any]) -> None:
    for text in [vector["record"], vector.get("4.9.7", vector)["record"]]:
        raw = bytes.fromhex(text)
        assert check_record(raw, 0, len(raw), True).status == GOOD
        record = decode_record(raw, 0)
        assert record.topic == vector["topic"]
        assert record.body.hex() == vector["body"]
        assert parse_properties_bytes(record.properties) == vector["properties"]
        ip, port = decode_host(record.born_host)
        assert vector["bornHost"] == f"{ip} {port}"
        ip, port = decode_host(record.store_host)
        assert vector["storeHost"] == f"{ip} {port}"
        for name, value in (
            ("queueId", record.queue_id),
            ("flag", record.flag),
            ("queueOffset", record.queue_offset),
            ("physicalOffset", record.physical_offset),
            ("sysFlag", record.sys_flag),
            ("bornTimestamp", record.born_timestamp),
            ("storeTimestamp", record.store_timestamp),
            ("reconsumeTimes", record.reconsume_times),
            ("preparedTransactionOffset", record.prepared_transaction_offset),
        ):
            assert value == vector[name], name


@given(record_fields())
def test_every_field_comes_back(fields: dict[str, Any]) -> None:
    data = encoded(fields)
    sizes = len(fields["body"]), len(fields["topic"]), len(fields["properties"])
    assert record_size(*sizes, fields["sys_flag"]) == len(data)
    record = decode_record(b"??" + data + b"rest", 2)
    for name, value in fields.items():
        if name == "topic":
            assert record.topic.encode() == value
            assert record.magic == (MAGIC_V2 if len(value) > 127 else MAGIC_V1)
        else:
            assert getattr(record, name) == value, name
    assert record.total_size == len(data)
    assert properties_at(b"??" + data + b"rest", 2) == fields["properties"]


@given(st.lists(record_fields(), max_size=4))
def test_records_back_to_back(many: list[dict[str, Any]]) -> None:
    data = b"".join(map(encoded, many))
    assert [r.body for r in decode_records(data)] == [f["body"] for f in many]
    # What follows the last good record ends the reading, as in Java's decoder.
    assert len(decode_records(data + b"\0\0\0\x64garbage")) == len(many)


@given(record_fields(), st.data())
def test_every_cut_is_bad(fields: dict[str, Any], data: st.DataObject) -> None:
    raw = encoded(fields)
    cut = data.draw(st.integers(0, len(raw) - 1))
    assert check_record(raw[:cut], 0, cut, True).status == BAD
    assert check_record(raw, 0, cut, True).status == BAD
    with pytest.raises(RecordError):
        decode_record(raw[:cut], 0)


@given(record_fields(), st.data())
def test_any_bytes_are_judged_without_a_crash(fields: dict[str, Any], data: st.DataObject) -> None:
    raw = bytearray(encoded(fields))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    checked = check_record(bytes(raw), 0, len(raw), True)
    assert checked.status in (GOOD, BLANK, BAD_SIZED, BAD)
    assert checked.status != BAD or checked.size == 0
    assert describe(checked)


def test_parts_that_do_not_add_up_keep_their_size() -> None:
    raw = encoded(FIELDS)
    longer = struct.pack(">i", len(raw) + 3) + raw[4:] + b"\0\0\0"
    checked = check_record(longer, 0, len(longer), True)
    assert (checked.status, checked.size) == (BAD_SIZED, len(raw) + 3)
    negative = struct.pack(">i", -5) + raw[4:]
    assert check_record(negative, 0, len(negative), True).status == BAD


@pytest.mark.parametrize("at", [0, 5, 300])
def test_a_negative_size_is_bad_wherever_the_record_begins(at: int) -> None:
    """Parts that leave the bytes count as an end at -1, which such a size would lead to."""
    raw = bytearray(encoded(FIELDS))
    raw[84:88] = struct.pack(">i", 1_000_000)
    raw[:4] = struct.pack(">i", -1 - at)
    data = bytes(at) + bytes(raw)
    assert (check_record(data, at, len(data), False).status, is_good(data, at, len(data), False)) == (BAD, False)


def test_crc_is_checked_when_asked() -> None:
    raw = bytearray(encoded(FIELDS))
    raw[90] ^= 1
    assert check_record(bytes(raw), 0, len(raw), False).status == GOOD
    assert check_record(bytes(raw), 0, len(raw), True).status == BAD


def test_a_topic_length_above_127_is_negative_for_java() -> None:
    raw = bytearray(encoded(FIELDS))
    raw[92] = 0x85
    assert check_record(bytes(raw) + bytes(300), 0, 400, False).status == BAD


def test_zeros_are_bad_and_the_blank_is_the_end() -> None:
    assert check_record(bytes(100), 0, 100, True).status == BAD
    data = encode_blank(77) + bytes(69)
    checked = check_record(data, 0, len(data), True)
    assert (checked.status, checked.size) == (BLANK, 77)
    assert check_record(data, 0, 76, True).status == BAD


def test_invalid_record_is_rejected_before_any_write() -> None:
    for change in (
        {"born_host": bytes(20)},
        {"sys_flag": 0x20},
        {"properties": bytes(32768)},
        {"topic": bytes(32768)},
    ):
        w = BytesWriter()
        with pytest.raises(RecordError, match=r"bytes"):
            encode(w, {**FIELDS, **change})
        assert len(w) == 0


def test_a_topic_decides_the_version_and_the_body_the_checksum() -> None:
    for length, magic in ((127, MAGIC_V1), (128, MAGIC_V2)):
        raw = encoded({**FIELDS, "topic": b"t" * length})
        assert struct.unpack_from(">i", raw, 4) == (magic,)
        assert decode_record(raw, 0).topic == "t" * length
    for body in (b"body", b"1", b"2", b"3", b""):
        assert struct.unpack_from(">i", encoded({**FIELDS, "body": body}), 8) == (zlib.crc32(body) & 0x7FFFFFFF,)


def test_a_record_is_found_only_where_it_says_it_is() -> None:
    raw = encoded(FIELDS)
    assert find_record(b"\xda" * 7 + raw, 0, -3) == 7
    assert find_record(b"\xda" * 7 + raw, 8, -3) == -1
    assert find_record(b"\xda" * 7 + raw, 0, -2) == -1
    assert find_record(b"\xda" * 7 + raw[:-1], 0, -3) == -1
    long_topic = encoded({**FIELDS, "topic": b"t" * 200, "physical_offset": 4 + len(raw)})
    assert find_record(raw + long_topic, 1, 4) == len(raw)


def test_decode_intact_ends_at_the_first_record_that_does_not_match_its_crc() -> None:
    records = [encoded(FIELDS | {"body": body}) for body in (b"first", b"", b"third", b"fourth")]
    whole = b"".join(records)
    found, end = decode_intact(whole)
    assert ([each.body for each in found], end) == ([b"first", b"", b"third", b"fourth"], len(whole))
    third = len(records[0] + records[1])
    damaged = bytearray(whole)
    damaged[damaged.index(b"third")] ^= 1
    found, end = decode_intact(bytes(damaged))
    assert ([each.body for each in found], end) == ([b"first", b""], third)
    assert not body_matches(decode_record(bytes(damaged), third))
    assert decode_intact(whole[:-1])[1] == len(whole) - len(records[3])
