"""The CRC of a body: RocketMQ's values, and equal results of the kernel and of zlib for all lengths and places."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest

from bolide.layout.body_crc import body_crc, crc_by_zlib
from tests.layout.vectors import vectors

SIZES = (*range(200), 255, 256, 1023, 1024, 4095, 4096, 65_535, 1 << 20)


@pytest.mark.parametrize("vector", vectors()["crc32"], ids=lambda v: v["text"])
def test_crc(vector: dict[str, Any]) -> None:
    data = vector["text"].encode()
    for crc in (body_crc, crc_by_zlib):
        assert crc(data, 0, len(data)) == vector["crc32"]
        assert crc(b"ab" + data + b"c", 2, 2 + len(data)) == vector["crc32"]


@pytest.mark.parametrize("crc", [body_crc, crc_by_zlib])
def test_crc_of_any_part_is_that_of_zlib(crc: Any) -> None:
    draw = random.Random(1)
    for size in SIZES:
        data = draw.randbytes(size + 40)
        for begin in (0, 1, 7, 16, 33):
            assert crc(data, begin, begin + size) == zlib.crc32(data[begin : begin + size]) & 0x7FFFFFFF
    assert crc(memoryview(b"abcd"), 1, 3) == zlib.crc32(b"bc") & 0x7FFFFFFF
