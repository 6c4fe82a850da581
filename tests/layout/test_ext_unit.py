"""Extension units: round trips, addresses, the ends of files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from bolide.layout import ext_unit
from bolide.layout.errors import LayoutError
from tests.layout.strategies import INT64


@given(INT64, INT64, st.binary(max_size=40))
def test_ext_unit(tags_code: int, store_timestamp: int, bitmap: bytes) -> None:
    w = BytesWriter()
    ext_unit.write_ext_unit(w, tags_code, store_timestamp, bitmap)
    raw = w.getvalue()
    assert len(raw) == ext_unit.ext_unit_size(bitmap)
    unit = ext_unit.read_ext_unit(b"xy" + raw, 2)
    assert (unit.size, unit.tags_code, unit.store_timestamp, unit.bitmap) == (
        len(raw),
        tags_code,
        store_timestamp,
        bitmap,
    )
    with pytest.raises(LayoutError, match=r"no extension unit"):
        ext_unit.read_ext_unit(raw[:-1], 0)


def test_ext_addresses() -> None:
    assert ext_unit.ext_address(0) == -(2**63)
    assert ext_unit.is_ext_address(-(2**63))
    assert ext_unit.is_ext_address(-2147483649)
    assert not ext_unit.is_ext_address(-2147483648), "the least tags code of a hash is no address"
    assert ext_unit.ext_offset(ext_unit.ext_address(8192)) == 8192
    assert ext_unit.fits(8192 - 24, 20, 8192)
    assert not ext_unit.fits(8192 - 23, 20, 8192)
    assert not ext_unit.has_address(0, 32768)


def test_ext_marks() -> None:
    assert ext_unit.read_ext_size(ext_unit.END_OF_FILE, 0) == -1
    assert ext_unit.read_ext_size(b"\0\0", 0) == 0
    assert ext_unit.read_ext_size(b"\0", 0) == 0
    with pytest.raises(LayoutError, match=r"bitmap of 7 bytes"):
        ext_unit.read_ext_unit(b"\0\x14" + bytes(16) + b"\0\x07" + bytes(10), 0)
