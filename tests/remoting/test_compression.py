"""Compressed bodies: Java's bytes are inflated, ours too, and never beyond the limit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from bolide.remoting.compression import (
    LEGACY_ZLIB,
    LZ4,
    ZLIB,
    ZSTD,
    compress,
    compression_type,
    decompress,
    decompress_by_flag,
)
from bolide.remoting.errors import CompressionError
from tests.remoting.vectors import vectors

TYPES = {"zlib": ZLIB, "Lz4Compressor": LZ4, "ZstdCompressor": ZSTD}
KINDS = [LEGACY_ZLIB, LZ4, ZSTD, ZLIB]


@pytest.mark.parametrize("vector", vectors("compression"))
def test_bytes_of_java(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    kind = TYPES[vector["type"]]
    assert decompress(data, kind, 100) == vector["text"].encode()
    for cut in range(len(data)):
        with pytest.raises(CompressionError):
            decompress(data[:cut], kind, 100)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("data", [b"", b"x", b"hello " * 2000, bytes(range(256)) * 300])
def test_both_ways_up_to_the_limit_and_not_beyond(kind: int, data: bytes) -> None:
    packed = compress(data, kind)
    assert decompress(packed, kind, len(data)) == data
    if data:
        with pytest.raises(CompressionError, match="more than"):
            decompress(packed, kind, len(data) - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bomb_is_refused_early(kind: int) -> None:
    with pytest.raises(CompressionError, match="more than 1000 bytes"):
        decompress(compress(bytes(50_000_000), kind), kind, 1000)


@pytest.mark.parametrize("kind", KINDS)
def test_rubbish_is_refused(kind: int) -> None:
    with pytest.raises(CompressionError):
        decompress(b"this is no compressed body", kind, 1000)


def test_types_stand_in_the_sys_flag() -> None:
    assert [compression_type(flag) for flag in (0x1, 0x101, 0x201, 0x301)] == [LEGACY_ZLIB, LZ4, ZSTD, ZLIB]
    assert decompress_by_flag(b"plain", 0x300, 5) == b"plain"
    assert decompress_by_flag(compress(b"text", LZ4), 0x101, 5) == b"text"
    for action in (lambda: decompress(b"", 5, 1), lambda: compress(b"", 5)):
        with pytest.raises(CompressionError, match="type 5 is unknown"):
            action()


@pytest.mark.parametrize("kind", KINDS)
def test_a_short_body_takes_little_memory_whatever_it_may_become(kind: int) -> None:
    packed = compress(b"hello " * 10, kind)
    decompress(packed, kind, 1000)  # what is loaded at first use is not counted
    tracemalloc.start()
    try:
        assert decompress(packed, kind, 64 * 1024 * 1024) == b"hello " * 10
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()
