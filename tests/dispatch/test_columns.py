"""Dispatch by columns is dispatch by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from bolide.dispatch.columns import DISPATCH_COLUMNS, dispatch_batch, index_batch, queue_units, string_hashes
from bolide.dispatch.row import dispatch_at, in_index, in_queue, index_keys
from bolide.layout.columns import RecordColumns, chain_starts, entry_batch, unit_batch
from bolide.layout.hashes import index_hash, java_hash
from bolide.layout.index_file import write_entry
from bolide.layout.queue_unit import write_unit
from bolide.layout.shape import StoreShape
from tests.layout.strategies import encoded, record_fields

SHAPES = {version: StoreShape(store_version=version) for version in ("5.5", "4.9")}  # type: ignore[arg-type]  # the two


@given(st.lists(record_fields(), max_size=6), st.sampled_from(["5.5", "4.9"]))
@settings(max_examples=300)
def test_columns_are_rows(many: list[dict[str, Any]], version: str) -> None:
    buf = b"".join(map(encoded, many))
    records = RecordColumns(buf, chain_starts(buf))
    shape = SHAPES[version]
    rows = [dispatch_at(buf, at, shape) for at in chain_starts(buf).tolist()]
    batch = dispatch_batch(records, shape)
    assert batch.schema.names == list(DISPATCH_COLUMNS)
    found = batch.to_pylist()
    for d, row in zip(rows, found, strict=True):
        assert row.pop("in_queue") == in_queue(d)
        assert row.pop("in_index") == in_index(d)
        for name, value in row.items():
            assert ("" if value is None else value) == getattr(d, name), name
    entries = [
        {"physical_offset": d.physical_offset, "store_timestamp": d.store_timestamp, "key_hash": index_hash(key)}
        for d in rows
        if in_index(d)
        for key in index_keys(d.topic, d.uniq_key, d.keys, d.tags, version != "4.9")
    ]
    assert index_batch(records, shape).to_pylist() == entries


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8), st.text("T#", max_size=3))
def test_hashes(texts: list[str], before: str) -> None:
    column = pa.array(["x", *texts, "y"], pa.string()).slice(1, len(texts))
    assert string_hashes(column).tolist() == [java_hash(text) for text in texts]
    seeds = np.full(len(texts), java_hash(before) & 0xFFFFFFFF, np.uint32)
    assert string_hashes(column, seeds).tolist() == [java_hash(before + text) for text in texts]


def test_the_number_without_absolute_value_is_zero() -> None:
    assert java_hash("polygenelubricants") == -(2**31)
    assert string_hashes(pa.array(["polygenelubricants"])).tolist() == [-(2**31)]


@given(st.lists(st.tuples(st.integers(0, 2**62), st.integers(1, 2**31 - 1), st.integers(-(2**63), 2**63 - 1))))
def test_units_there_and_back(units: list[tuple[int, int, int]]) -> None:
    w = BytesWriter()
    for unit in units:
        write_unit(w, *unit)
    raw = w.getvalue()
    columns = [np.array([unit[i] for unit in units], np.int64) for i in range(3)]
    assert queue_units(*columns) == raw
    found = unit_batch(raw + b"\0" * 19)
    assert [tuple(row.values()) for row in found.to_pylist()] == units


def test_entries_as_columns() -> None:
    w = BytesWriter()
    write_entry(w, 7, 2**40, 3, 1)
    write_entry(w, 8, 2**40 + 1, 4, 2)
    assert entry_batch(w.getvalue()).to_pydict() == {
        "key_hash": [7, 8],
        "physical_offset": [2**40, 2**40 + 1],
        "seconds": [3, 4],
        "previous": [1, 2],
    }


@pytest.mark.parametrize("level", ["3", "99", "0", "-1", "x"])
def test_schedule_times(level: str) -> None:
    from tests.layout.records import FIELDS

    fields = {**FIELDS, "topic": b"SCHEDULE_TOPIC_XXXX", "properties": f"TAGS\x01a\x02DELAY\x01{level}\x02".encode()}
    buf = encoded({**fields, "store_timestamp": 10**12})
    batch = dispatch_batch(RecordColumns(buf, chain_starts(buf)), SHAPES["5.5"])
    assert batch.column("tags_code").to_pylist() == [dispatch_at(buf, 0, SHAPES["5.5"]).tags_code]
