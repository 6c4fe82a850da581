"""Columns are rows: whatever the row codec reads out of a record, the columns hold."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.layout.columns import (
    COLUMNS,
    RecordColumns,
    blank_at,
    chain_starts,
    find_starts,
    record_batch,
)
from bolide.layout.errors import RecordError
from bolide.layout.native_columns import KERNEL
from bolide.layout.record import encode_blank, find_record
from tests.layout.records import FIELDS
from tests.layout.rows import as_row, as_rows
from tests.layout.strategies import encoded, record_fields


def placed(many: list[dict[str, Any]], base: int) -> tuple[bytes, list[int]]:
    """A stretch of log: records with their own physical offsets, and where each starts."""
    buf = b""
    starts = []
    for fields in many:
        starts.append(len(buf))
        buf += encoded({**fields, "physical_offset": base + len(buf)})
    return buf, starts


@given(st.lists(record_fields(), max_size=6))
@settings(max_examples=300)
def test_columns_are_rows(many: list[dict[str, Any]]) -> None:
    buf = b"".join(map(encoded, many))
    starts = chain_starts(buf)
    batch = record_batch(buf, starts)
    assert batch.schema.names == list(COLUMNS)
    batch.validate(full=True)
    assert as_rows(batch) == [as_row(buf, at) for at in starts.tolist()]
    assert len(starts) == len(many)
    alone = RecordColumns(buf, starts)  # without the map of all properties they are found in another way
    for name in ("tags", "keys", "uniq_key", "message_id"):
        column: Any = alone.column(name)
        column.validate(full=True)
        assert column.to_pylist() == batch.column(name).to_pylist(), name
    for name in ("DELAY", "a", "n", "WAIT"):
        assert alone.property_values(name).to_pylist() == [
            dict(row["properties"]).get(name) for row in batch.to_pylist()
        ]


@given(st.lists(record_fields(), max_size=5), st.integers(0, 2**40), st.data())
def test_starts_are_found_from_anywhere(many: list[dict[str, Any]], base: int, data: st.DataObject) -> None:
    buf, starts = placed(many, base)
    begin = data.draw(st.integers(0, len(buf)))
    end = data.draw(st.integers(begin, len(buf)))
    found = find_starts(buf[begin:end], base + begin)
    bounds = [*starts, len(buf)]
    inside = [at for at, stop in zip(starts, bounds[1:], strict=True) if at >= begin and stop <= end]
    assert found.starts.tolist() == [at - begin for at in inside]
    assert found.holes == []
    assert find_record(buf[begin:end], 0, base + begin) == (inside[0] - begin if inside else -1)
    cut = [at - begin for at, stop in zip(starts, bounds[1:], strict=True) if at >= begin and at + 36 <= end < stop]
    assert found.cut == (cut[0] if cut and end - begin >= 91 else -1)


def test_records_of_one_size_are_found_and_cut_as_others_are() -> None:
    one = {**FIELDS, "body": bytes(200)}
    buf, starts = placed([*[one] * 90, {**one, "body": bytes(201)}, *[one] * 90], 7000)
    size = starts[1]
    for end in range(len(buf) - 2 * size, len(buf) + 1):
        found = find_starts(buf[:end], 7000)
        whole = sum(1 for at, stop in zip(starts, [*starts[1:], len(buf)], strict=True) if stop <= end)
        assert found.starts.tolist() == starts[:whole]
        rest = end - starts[whole] if whole < len(starts) else 0
        assert found.cut == (starts[whole] if rest >= 36 else -1), end
    assert find_starts(buf[5:], 7005).starts.tolist() == [at - 5 for at in starts[1:]]


@pytest.mark.parametrize("at", [4, 30, 39, 84], ids=["magic", "own offset", "IPv6", "body length"])
def test_a_broken_one_among_records_of_one_size_is_a_hole(at: int) -> None:
    buf, starts = placed([{**FIELDS, "body": bytes(200)}] * 180, 7000)
    bad = bytearray(buf)
    bad[starts[150] + at] ^= 0x10
    found = find_starts(bytes(bad), 7000)
    assert found.starts.tolist() == starts[:150] + starts[151:]
    assert found.holes == [(starts[150], starts[1])]


def test_a_record_within_a_broken_one_of_many_of_one_size_is_found() -> None:
    body = bytes(60) + encoded(FIELDS) + bytes(60)
    buf, starts = placed([{**FIELDS, "body": body}] * 180, 7000)
    inner = starts[150] + buf[: starts[1]].index(body) + 60
    moved = encoded({**FIELDS, "physical_offset": 7000 + inner})
    bad = bytearray(buf)
    bad[inner : inner + len(moved)] = moved
    assert find_starts(bytes(bad), 7000).starts.tolist() == starts
    bad[starts[150] + 84] ^= 0x10
    assert find_starts(bytes(bad), 7000).starts.tolist() == [*starts[:150], inner, *starts[151:]]


def test_holes_and_blanks_are_told() -> None:
    first, _ = placed([FIELDS], 1000)
    second = encoded({**FIELDS, "physical_offset": 1000 + len(first) + 30})
    end = 1000 + len(first) + 30 + len(second)
    buf = first + b"\xda\xa3\x20\xa7" + bytes(26) + second + encode_blank(4096 - end)
    found = find_starts(buf, 1000)
    assert found.starts.tolist() == [0, len(first) + 30]
    assert found.holes == [(len(first), 30)]
    assert blank_at(buf, end - 1000)
    assert not blank_at(buf, 0)
    assert as_rows(record_batch(buf, found.starts)) == [as_row(buf, at) for at in found.starts.tolist()]


def test_records_within_a_body_are_not_records() -> None:
    inner_at = 88
    inner = encoded({**FIELDS, "physical_offset": 500 + inner_at})
    outer = encoded({**FIELDS, "physical_offset": 500, "body": inner})
    assert find_starts(outer, 500).starts.tolist() == [0]
    assert chain_starts(outer).tolist() == [0]
    assert chain_starts(outer * 3).tolist() == [0, len(outer), 2 * len(outer)]


def test_the_chain_ends_before_what_is_no_record() -> None:
    one = encoded(FIELDS)
    assert chain_starts(one * 2 + b"\0" * 200).tolist() == [0, len(one)]
    assert chain_starts(one + one[:-1]).tolist() == [0]
    assert chain_starts(b"x" + one).tolist() == []
    assert chain_starts(b"").tolist() == []
    assert record_batch(b"", chain_starts(b"")).num_rows == 0


def test_a_record_whose_parts_do_not_add_up_is_no_start() -> None:
    good, _ = placed([FIELDS], 0)
    for at in (84, 87, 92, len(good) - 5):
        bad = bytearray(good)
        bad[at] ^= 0x55
        assert find_starts(bytes(bad), 0).starts.tolist() == [], at


def test_columns_by_name() -> None:
    buf, starts = placed([FIELDS, FIELDS], 0)
    columns = RecordColumns(buf, np.array(starts[1:]))
    assert len(columns) == 1
    assert columns.column("topic").to_pylist() == ["topic"]
    assert columns.numbers("physical_offset").tolist() == starts[1:]
    with pytest.raises(RecordError, match=r"no column 'x' of a record"):
        columns.column("x")
    assert record_batch(buf, np.array(starts), ["body", "flag"]).schema.names == ["body", "flag"]


def test_many_names_and_repeats() -> None:
    many = [
        {**FIELDS, "properties": "".join(f"n{i}\x01{i}\x02" for i in range(row, row + 20)).encode()}
        for row in range(60)
    ]
    many.append({**FIELDS, "properties": b"a\x011\x02b\x012\x02a\x013\x02"})
    buf, starts = placed(many, 0)
    rows = as_rows(record_batch(buf, np.array(starts)))
    assert rows == [as_row(buf, at) for at in starts]
    assert rows[-1]["properties"] == {"a": "3", "b": "2"}


def test_matches_crc_is_false_for_a_changed_body_only() -> None:
    data = bytearray(b"".join(encoded(FIELDS | {"body": body}) for body in (b"first", b"", b"third")))
    assert RecordColumns(bytes(data), chain_starts(bytes(data))).matches_crc.tolist() == [True, True, True]
    data[data.index(b"third")] ^= 1
    assert RecordColumns(bytes(data), chain_starts(bytes(data))).matches_crc.tolist() == [True, True, False]


@pytest.mark.parametrize("kernel", [None, KERNEL], ids=["numpy", "kernel"])
def test_a_message_has_its_own_id_or_the_brokers(kernel: ModuleType | None) -> None:
    many = [FIELDS, {**FIELDS, "properties": b"UNIQ_KEY\x01own\x02"}, FIELDS]
    buf, starts = placed(many, 0)
    brokers = [as_row(buf, at)["offset_message_id"] for at in starts]
    found: Any = RecordColumns(buf, np.array(starts), kernel).message_id
    assert found.to_pylist() == [brokers[0], "own", brokers[2]]
