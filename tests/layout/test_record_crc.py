"""The CRC of a whole record in its last 20 bytes, and recovery that asks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bolide.dispatch.row import scan_records
from bolide.layout.record import BAD, GOOD
from bolide.layout.record_crc import CRC_SIZE, crc_holds, crc_mark, without_crc
from bolide.layout.shape import StoreShape
from tests.layout.records import FIELDS
from tests.layout.strategies import encoded

SHAPE = StoreShape(verify_property_crc=True)


def record(number: int = 0) -> bytes:
    """A record that ends with its CRC."""
    bare = encoded({**FIELDS, "queue_offset": number, "properties": b"a\x01b\x02" + bytes(CRC_SIZE)})
    return bare[:-CRC_SIZE] + crc_mark(bare[:-CRC_SIZE])


def test_the_mark_has_its_digits_from_the_lowest_on() -> None:
    assert crc_mark(b"") == b"__CRC32#\x010000000000\x02"
    digits = crc_mark(b"123456789")[9:19].decode()
    assert int(digits[::-1]) == 0xCBF43926 & 0x7FFFFFFF


@pytest.mark.parametrize("at", [3, 20, 60, -25, -5, -1], ids=str)
def test_any_changed_byte_is_noticed(at: int) -> None:
    good = record()
    assert crc_holds(good, 0, len(good))
    torn = bytearray(good)
    torn[at] ^= 1
    assert not crc_holds(bytes(torn), 0, len(torn))


def test_scanning_asks_for_it_only_where_it_is_forced() -> None:
    first, second = record(0), record(1)
    torn = bytearray(first + second)
    torn[len(first) + 20] ^= 1  # of the queue offset, which no CRC of the body covers
    forced = scan_records(bytes(torn), 0, len(torn), SHAPE, True, 10)
    assert (len(forced.dispatches), forced.end, forced.status) == (1, len(first), BAD)
    plain = scan_records(bytes(torn), 0, len(torn), replace(SHAPE, verify_property_crc=False), True, 10)
    assert (len(plain.dispatches), plain.status) == (2, GOOD)
    unchecked = scan_records(bytes(torn), 0, len(torn), SHAPE, False, 10)
    assert len(unchecked.dispatches) == 2


def test_a_record_without_one_fails_where_it_is_forced() -> None:
    bare = encoded(FIELDS)
    assert scan_records(bare, 0, len(bare), SHAPE, True, 10).status == BAD


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\x01b\x02__CRC32#\x011234567890\x02", b"a\x01b\x02"),
        (b"__CRC32#\x011\x02a\x01b", b"a\x01b"),
        (b"a\x01__CRC32#x", b"a\x01__CRC32#x"),
        (b"", b""),
    ],
    ids=["last", "first", "in a value", "none"],
)
def test_the_crc_of_an_earlier_life_goes(before: bytes, after: bytes) -> None:
    assert without_crc(before) == after
