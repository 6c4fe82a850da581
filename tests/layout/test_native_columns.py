"""The native kernel of columns: with it and without it records have the same places and the same columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.layout import columns as module
from bolide.layout.columns import COLUMNS, NUMBERS, RecordColumns, chain_starts, find_starts
from bolide.layout.native_columns import KERNEL, NativePairs
from bolide.layout.property_columns import strings
from tests.layout.records import FIELDS
from tests.layout.strategies import encoded, record_fields

pytestmark = pytest.mark.skipif(KERNEL is None, reason="the native kernel is not built here")

ODD: tuple[bytes, ...] = (
    b"",
    b"\x01",
    b"\x02",
    b"\x02\x02\x01\x02",
    b"a",
    b"a\x01",
    b"a\x01\x02",
    b"\x01b\x02",
    b"a\x01b",
    b"a\x01b\x02c",
    b"a\x01b\x01c\x02",
    b"TAGS\x01x\x02a\x011\x02TAGS\x01y\x02",
    b"KEYS\x01  a  b \x02",
    b"KEYS\x01 \x02",
    b"KEYS\x01\x02",
    b"KEYS\x01one\x02UNIQ_KEY\x01k\x02",
    b"\xff\x01\xfe\x02TAGS\x01\xc3\x02",
    "é\x01ü\x02KEYS\x01ä ö\x02".encode(),
    b"".join(b"n%d\x01%d\x02" % (number, number) for number in range(60)),
    b"".join(b"n%d\x01%d\x02" % (number % 70, number) for number in range(2_000)),
    b"TAGS\x01" + b"t" * 20_000 + b"\x02",
)
NAMES = ("TAGS", "KEYS", "UNIQ_KEY", "DELAY", "a", "n", "n7", "WAIT", "é", "a name that is longer than eight", "")


def same_columns(data: bytes, starts: Any) -> None:
    """Every column of these records is the same with the kernel and without it."""
    native, plain = (RecordColumns(data, starts, kernel) for kernel in (KERNEL, None))
    assert native.matches_crc.tolist() == plain.matches_crc.tolist()
    for name in ("tags", "keys", "uniq_key", "message_id"):  # alone, before the map is made
        same(RecordColumns(data, starts, KERNEL).column(name), RecordColumns(data, starts, None).column(name))
    for name in COLUMNS:
        if name not in NUMBERS:
            same(native.column(name), plain.column(name))
    same(native.whole, plain.whole)
    same(native.raw_properties, plain.raw_properties)
    for name in NAMES:
        same(native.property_values(name), plain.property_values(name))


def same(native: Any, plain: Any) -> None:
    native.validate(full=True)
    assert native.type == plain.type
    assert native.null_count == plain.null_count
    assert native.to_pylist() == plain.to_pylist()


@given(st.lists(record_fields(), max_size=6), st.data())
@settings(max_examples=100, deadline=None)
def test_any_records_have_the_same_columns(many: list[dict[str, Any]], data: st.DataObject) -> None:
    for fields in many:
        if data.draw(st.booleans()):
            fields["properties"] = data.draw(st.sampled_from(ODD) | st.binary(max_size=40))
    log = b"".join(map(encoded, many))
    starts = chain_starts(log, None)
    assert len(starts) == len(many)
    same_columns(log, starts)
    if many:
        kept = data.draw(st.lists(st.booleans(), min_size=len(many), max_size=len(many)))
        same_columns(log, starts[np.array(kept)])


@pytest.mark.parametrize("properties", ODD, ids=range(len(ODD)))
def test_odd_properties_among_others_have_the_same_columns(properties: bytes) -> None:
    many = [FIELDS, {**FIELDS, "properties": properties}, {**FIELDS, "properties": b""}, FIELDS]
    same_columns(log := b"".join(map(encoded, many)), chain_starts(log))
    same_columns(log := encoded({**FIELDS, "properties": properties}), chain_starts(log))


@pytest.mark.parametrize("flag", [0, 0x10, 0x20, 0x30])
@pytest.mark.parametrize("port", [0, 80, -1, -(2**31), 2**31 - 1])
def test_hosts_of_both_kinds_have_the_same_texts(flag: int, port: int) -> None:
    addresses = [bytes([10, 0, 255, 9]), bytes([0, 1, 20, 100])]
    hosts = [address + port.to_bytes(4, "big", signed=True) for address in addresses]
    wide = [bytes(12) + host for host in hosts]
    many = [
        {
            **FIELDS, "sys_flag": flag, "born_host": (wide if flag & 0x10 else hosts)[number % 3 % 2],
            "store_host": (wide if flag & 0x20 else hosts)[number % 2],
        }
        for number in range(6)
    ]  # fmt: skip
    same_columns(log := b"".join(map(encoded, many)), chain_starts(log))


@given(st.lists(record_fields(), max_size=5), st.integers(0, 2**40), st.data())
@settings(max_examples=300, deadline=None)
def test_records_are_found_at_the_same_places(many: list[dict[str, Any]], base: int, data: st.DataObject) -> None:
    log = bytearray()
    for fields in many:
        if data.draw(st.integers(0, 4)) == 0:
            log += data.draw(st.sampled_from([bytes(30), b"\xda\xa3\x20\xa7" * 9, b"\0\0\0\x5b\xda\xa3\x20\xab"]))
        inner = encoded({**FIELDS, "physical_offset": base + len(log) + 88})
        if data.draw(st.integers(0, 4)) == 0 and not fields["sys_flag"] & 0x30:
            fields["body"] = inner
        log += encoded({**fields, "physical_offset": base + len(log)})
    for _ in range(data.draw(st.integers(0, 2))):
        if log:
            log[data.draw(st.integers(0, len(log) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    begin = data.draw(st.integers(0, len(log)))
    end = data.draw(st.integers(begin, len(log)))
    for part, at in ((bytes(log), base), (bytes(log[begin:end]), base + begin)):
        native, plain = (find_starts(part, at, kernel) for kernel in (KERNEL, None))
        assert native.starts.tolist() == plain.starts.tolist()
        assert native.cut == plain.cut
        assert native.holes == plain.holes
        assert native.parts.end.tolist() == plain.parts.end.tolist()
        assert chain_starts(part, KERNEL).tolist() == chain_starts(part, None).tolist()


def test_many_records_of_one_size_are_found_at_the_same_places() -> None:
    one = {**FIELDS, "body": bytes(200)}
    log = bytearray()
    for number in range(200):
        log += encoded({**one, "body": bytes(201) if number == 90 else bytes(200), "physical_offset": 7000 + len(log)})
    for at in (4, 30, 39, 84, 20_004, 20_030):
        bad = bytearray(log)
        bad[at] ^= 0x10
        for cut in range(0, 400, 37):
            native, plain = (find_starts(bytes(bad[cut : len(bad) - cut]), 7000 + cut, it) for it in (KERNEL, None))
            assert (native.starts.tolist(), native.cut, native.holes) == (plain.starts.tolist(), plain.cut, plain.holes)


def test_the_kernel_makes_what_is_usual() -> None:
    """Otherwise these tests would compare the reference with itself."""
    log = encoded({**FIELDS, "properties": b"TAGS\x01x\x02KEYS\x01a b\x02"}) * 3
    columns: Any = RecordColumns(log, chain_starts(log))
    assert isinstance(columns._pairs, NativePairs)
    assert columns.tags.to_pylist() == ["x"] * 3
    assert "_native_pairs" in columns.__dict__ and "marks" not in columns.__dict__
    assert module.native.KERNEL is KERNEL


def test_places_outside_the_buffer_are_refused() -> None:
    kernel: Any = KERNEL
    raw = np.frombuffer(b"0123456789", np.uint8)
    place = np.array
    for begin, end in ((-1, 4), (4, 3), (4, 11), (2**62, 2**62 + 1)):
        places = place([begin], np.int64), place([end], np.int64)
        for ask in (
            lambda at: kernel.gathered(raw, *at, pa.allocate_buffer),
            lambda at: kernel.hosts(raw, *at, pa.allocate_buffer),
            lambda at: kernel.offset_ids(raw, *at, place([0], np.int64), pa.allocate_buffer),
            lambda at: kernel.matching(raw, *at, place([0], np.int32)),
            lambda at: kernel.PropertyPairs(raw, *at),
        ):
            with pytest.raises(ValueError, match="10 bytes do not hold what lies between"):
                ask(places)
    good = place([0], np.int64), place([8], np.int64)
    for record in (3, -1, 2**63 - 1):
        with pytest.raises(ValueError, match="do not hold the record"):
            kernel.offset_ids(raw, *good, place([record], np.int64), pa.allocate_buffer)
    with pytest.raises(ValueError, match="1 bodies have 2 CRCs"):
        kernel.matching(raw, *good, place([0, 0], np.int32))
    with pytest.raises(ValueError, match="1 places begin and 0 end"):
        kernel.gathered(raw, good[0], good[1][:0], pa.allocate_buffer)
    with pytest.raises(ValueError, match="do not hold a text"):
        kernel.split(place([0, 11], np.int32), raw, pa.allocate_buffer)
    with pytest.raises(ValueError, match="there is no offset"):
        kernel.split(place([], np.int32), raw, pa.allocate_buffer)
    with pytest.raises(TypeError):
        kernel.PropertyPairs.__new__(kernel.PropertyPairs)


def test_pairs_whose_offsets_exceed_32_bits_are_left_to_the_reference() -> None:
    kernel: Any = KERNEL
    raw = np.zeros(2**20, np.uint8)
    for count, complete in ((2, True), (2**11, False)):
        begin = np.zeros(count, np.int64)
        assert kernel.PropertyPairs(raw, begin, begin + len(raw)).complete is complete


@given(st.lists(st.binary(max_size=12), max_size=8))
def test_bytes_are_gathered_whatever_they_are(parts: list[bytes]) -> None:
    raw = np.frombuffer(b"".join(parts), np.uint8)
    ends = np.cumsum([0, *map(len, parts)]).astype(np.int64)
    kernel: Any = KERNEL
    offsets, data = kernel.gathered(raw, ends[:-1], ends[1:], pa.allocate_buffer)
    array: Any = pa.Array.from_buffers(pa.binary(), len(parts), [None, offsets, data])
    array.validate(full=True)
    assert array.to_pylist() == parts
    same(strings(array), pa.array([part.decode("utf-8", "replace") for part in parts], pa.string()))
