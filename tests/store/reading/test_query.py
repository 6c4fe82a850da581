"""Queries by key through index and log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bolide.layout.record import decode_record
from bolide.store.reading.query import KeyQuery
from tests.store.parts import SHAPE, Parts, put_of

EVER = 1 << 60


def test_records_come_in_the_order_of_the_log(tmp_path: Path) -> None:
    parts = Parts(tmp_path, shape=replace(SHAPE, index_entries=500))
    for number in range(20):
        parts.append(
            put_of("T", 0, f"body {number}".encode(), keys="k k" if number % 2 else "other", tags="t"), now=1000
        )
    parts.dispatch()
    found = KeyQuery(parts.log, parts.index).messages("T", "k", 3, begin=0, end=EVER)
    bodies = [decode_record(data, 0).body for data in found.records]
    assert bodies == [b"body 17", b"body 19"], "two entries of one record count twice and are answered once"
    assert found.last_update_timestamp == 1000
    assert found.last_update_physical_offset == parts.reput.last_physical_offset
    tagged = KeyQuery(parts.log, parts.index).messages("T", "t", 64, begin=0, end=EVER, index_type="T")
    assert len(tagged.records) == 20
    assert KeyQuery(parts.log, parts.index).messages("T", "none", 64, begin=0, end=EVER).records == []


def test_records_that_left_the_log_are_left_out(tmp_path: Path) -> None:
    parts = Parts(tmp_path, shape=replace(SHAPE, index_entries=500))
    offsets = [int(parts.append(put_of("T", 0, b"x" * 300, keys="k")).physical_offset) for _ in range(30)]
    parts.dispatch()
    parts.log.segments.delete_before(8192)
    found = KeyQuery(parts.log, parts.index).messages("T", "k", 64, begin=0, end=EVER)
    assert found.offsets == [at for at in offsets if at >= 8192]
    parts.log.segments.delete_before(1 << 40)
    left = KeyQuery(parts.log, parts.index).messages("T", "k", 64, begin=0, end=EVER)
    assert left.offsets == [at for at in offsets if at >= parts.log.segments.min_offset]
