"""Index files: header, entries, places and times."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from bolide.layout import index_file
from bolide.layout.errors import LayoutError
from tests.layout.strategies import INT32, INT64


@given(st.tuples(INT64, INT64, INT64, INT64, INT32, st.integers(1, 2**31 - 1)))
def test_index_header(fields: tuple[int, int, int, int, int, int]) -> None:
    raw = index_file.IndexHeader(*fields).encode()
    assert len(raw) == index_file.HEADER_SIZE
    header = index_file.decode_index_header(raw)
    assert (
        header.begin_timestamp,
        header.end_timestamp,
        header.begin_physical_offset,
        header.end_physical_offset,
        header.slot_count,
        header.index_count,
    ) == fields


def test_index_header_of_an_empty_file() -> None:
    assert index_file.decode_index_header(bytes(40)).index_count == 1
    with pytest.raises(LayoutError, match=r"40 bytes"):
        index_file.decode_index_header(bytes(39))


@given(INT32, INT64, INT32, INT32)
def test_index_entry(key_hash: int, physical_offset: int, seconds: int, previous: int) -> None:
    w = BytesWriter()
    index_file.write_entry(w, key_hash, physical_offset, seconds, previous)
    entry = index_file.read_entry(b"x" + w.getvalue(), 1)
    assert (entry.key_hash, entry.physical_offset, entry.seconds, entry.previous) == (
        key_hash,
        physical_offset,
        seconds,
        previous,
    )


def test_index_places_and_times() -> None:
    assert index_file.index_file_size(5_000_000, 20_000_000) == 420_000_040
    assert index_file.slot_position(1) == 44
    assert index_file.entry_position(200, 1) == 40 + 800 + 20
    assert index_file.entry_seconds(0, 5_000) == 0
    assert index_file.entry_seconds(1_000, 5_999) == 4
    assert index_file.entry_seconds(9_000, 5_000) == 0
    assert index_file.entry_seconds(1, 10**14) == 2**31 - 1
