"""Bytes of the timer's files, checked by hand, and the rules of rolls and slots."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.layout.timer import (
    BLANK_SIZE,
    MAGIC_DEFAULT,
    MAGIC_DELETE,
    MAGIC_ROLL,
    UNIT_SIZE,
    WHEEL_SLOTS,
    Slot,
    decode_slots,
    decode_unit,
    encode_blank,
    encode_slot,
    encode_unit,
    is_blank,
    last_unit_at,
    out_time,
    roll_window,
    rolled_time,
    slot_at,
    wheel_precision,
)
from bolide.layout.timer_checkpoint import TIMER_CHECKPOINT_SIZE, TimerCheckpoint, decode_timer_checkpoint

NOW = 1_700_000_000_000


def test_a_slot_is_32_bytes_with_its_time_in_slots() -> None:
    data = encode_slot(Slot(NOW, 52, 104, -3), 500)
    assert data == struct.pack(">qqqii", NOW // 500, 52, 104, -3, 0)
    at = slot_at(NOW, 500, WHEEL_SLOTS)
    assert at == NOW // 500 % (7 * 24 * 3600 * 2) * 32
    (slot,) = decode_slots(data, at, 500, WHEEL_SLOTS, 0)
    assert (slot.time, slot.first, slot.last, slot.count) == (NOW, 52, 104, -3)


def test_slots_that_are_over_or_in_another_time_s_place_are_left_out() -> None:
    at = slot_at(NOW, 1000, 600)
    data = b"".join(encode_slot(Slot(NOW + second * 1000, 0, 0, 1), 1000) for second in range(3)) + bytes(32)
    assert [slot.time for slot in decode_slots(data, at, 1000, 600, NOW + 1000)] == [NOW + 1000, NOW + 2000]
    assert decode_slots(data, at + 32, 1000, 600, 0) == []


def test_a_unit_is_52_bytes() -> None:
    data = encode_unit(-1, MAGIC_DEFAULT | MAGIC_DELETE, NOW, NOW + 9_000, 1 << 40, 321, -7)
    assert data == struct.pack(">iqiqiqiiq", 52, -1, 5, NOW, 9_000, 1 << 40, 321, -7, 0)
    unit = decode_unit(b"xx" + data, 2)
    assert unit is not None
    assert (unit.previous, unit.time, unit.physical_offset, unit.size, unit.topic_hash) == (
        -1,
        NOW + 9_000,
        1 << 40,
        321,
        -7,
    )
    assert (unit.deletes, unit.rolls, unit.worth) == (True, False, -1)


def test_a_delete_on_its_way_is_no_delete_yet() -> None:
    unit = decode_unit(encode_unit(0, MAGIC_DEFAULT | MAGIC_DELETE | MAGIC_ROLL, NOW, NOW, 0, 1, 0), 0)
    assert unit is not None
    assert (unit.deletes, unit.rolls, unit.worth) == (False, True, -1)


@pytest.mark.parametrize(
    "data",
    [
        bytes(52),
        encode_unit(0, 16, 0, 0, 0, 0, 0),
        encode_unit(0, 0, 0, 0, 0, 0, 0),
        encode_blank(60) + bytes(44),
        b"\0\0\0\x34",
    ],
    ids=["zeros", "unknown magic", "no magic", "blank", "torn"],
)
def test_invalid_unit_is_none(data: bytes) -> None:
    assert decode_unit(data, 0) is None


def test_the_blank_is_java_s() -> None:
    assert encode_blank(67) == struct.pack(">iqI", 67, 0, 0xCBD43194)
    assert is_blank(b"y" + encode_blank(67), 1)
    assert not is_blank(encode_blank(67)[:-1], 0)
    assert not is_blank(bytes(16), 0)


@pytest.mark.parametrize("size", [120, 121, 68 + 52, 68 + 51, 520, 104_857_600])
def test_the_last_unit_of_a_file(size: int) -> None:
    at = last_unit_at(size)
    assert at % UNIT_SIZE == 0
    assert at + UNIT_SIZE + BLANK_SIZE <= size < at + 2 * UNIT_SIZE + BLANK_SIZE


@given(st.integers(NOW, NOW + 10**9), st.sampled_from([100, 200, 500, 1000]))
def test_the_slot_of_a_time_is_over_by_then_and_not_long_before(deliver_at: int, precision: int) -> None:
    out = out_time(deliver_at, precision)
    assert out % precision == 0
    assert out < deliver_at <= out + precision


@pytest.mark.parametrize(
    "ahead, wait",
    [(0, 0), (29, 29), (30, 15), (39, 15), (40, 30), (400, 30)],
)
def test_rolls_as_java_does(ahead: int, wait: int) -> None:
    assert rolled_time(NOW + ahead * 1000, NOW, 30, 1000) == NOW + wait * 1000


def test_settings_that_java_bends() -> None:
    assert [wheel_precision(wanted) for wanted in (1, 150, 499, 500, 999, 1000, 9999)] == [
        100,
        100,
        200,
        500,
        500,
        1000,
        1000,
    ]
    most = WHEEL_SLOTS - 60
    assert [roll_window(wanted) for wanted in (0, 1, 2, most, most + 1)] == [most, most, 2, most, most]


def test_a_checkpoint_has_java_s_fields_and_our_mark_behind() -> None:
    checkpoint = TimerCheckpoint(NOW, 520, 11, 3, NOW + 1, 5, 1000)
    data = checkpoint.encode()
    assert len(data) == TIMER_CHECKPOINT_SIZE
    assert data[:56] == struct.pack(">7q", NOW, 520, 11, 11, 3, NOW + 1, 5) == checkpoint.encode_body()
    assert decode_timer_checkpoint(data) == checkpoint
    assert checkpoint.ours


def test_a_checkpoint_that_java_wrote_over_ours_is_java_s() -> None:
    data = TimerCheckpoint(NOW, 520, 11, 3, NOW + 1, 5, 1000).encode()
    javas = struct.pack(">7q", NOW, 572, 12, 12, 0, NOW, 6) + data[56:]
    assert decode_timer_checkpoint(javas) == TimerCheckpoint(NOW, 572, 12, 0, NOW, 6)
    behind_its_master = struct.pack(">7q", NOW, 572, 12, 9, 0, NOW, 6)
    assert decode_timer_checkpoint(behind_its_master.ljust(4096, b"\0")).queue_offset == 9


@pytest.mark.parametrize("data", [None, b"", bytes(55)])
def test_no_checkpoint_says_that_nothing_was_done(data: bytes | None) -> None:
    assert decode_timer_checkpoint(data) == TimerCheckpoint()
