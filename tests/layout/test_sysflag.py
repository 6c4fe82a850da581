"""Bits of the sys flag."""

from __future__ import annotations

from bolide.layout import sysflag


def test_bits_are_told_apart() -> None:
    flag = sysflag.COMPRESSED | sysflag.TRANSACTION_COMMIT | sysflag.BORN_HOST_V6 | sysflag.COMPRESSION_ZSTD << 8
    assert sysflag.transaction_type(flag) == sysflag.TRANSACTION_COMMIT
    assert sysflag.compression_type(flag) == sysflag.COMPRESSION_ZSTD
