"""Compressed message bodies: zlib, LZ4 frame, Zstandard (CompressionType.java, MessageSysFlag.java).

Bit 0 of the message sys flag marks a compressed body, and bits 8 to 10 contain the type. Producers before 4.9.4 send
type 0, which means zlib. The caller limits the inflated size, because a few kilobytes may claim gigabytes. LZ4 and
Zstandard are imported at first use, because most processes do not need them.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

from bolide.remoting.errors import CompressionError, CompressionMissing

LZ4: Final = 1
ZSTD: Final = 2
ZLIB: Final = 3
LEGACY_ZLIB: Final = 0
NAMES: Final[dict[str, int]] = {"ZLIB": ZLIB, "LZ4": LZ4, "ZSTD": ZSTD}

COMPRESSED_FLAG: Final = 0x1
TYPE_MASK: Final = 0x700
TYPE_SHIFT: Final = 8
DEFAULT_LEVEL: Final = 5
LZ4_PIECE: Final = 64 * 1024
ZSTD_PIECE: Final = 256  # bytes per step; a block has at least 3 bytes and inflates to at most 128 KiB


def compression_type(sys_flag: int) -> int:
    """Return the compression type in a message sys flag: 0 to 7; only 0 to 3 are defined."""
    return (sys_flag & TYPE_MASK) >> TYPE_SHIFT


def compress(data: bytes, kind: int = ZLIB, level: int = DEFAULT_LEVEL) -> bytes:
    """Compress `data` with the type `kind`. `level` is 1 to 9 for zlib and Zstandard; LZ4 ignores it."""
    if kind in (ZLIB, LEGACY_ZLIB):
        return zlib.compress(data, level)
    if kind == LZ4:
        return bytes(_lz4().compress(data))
    if kind == ZSTD:
        return bytes(_zstandard().ZstdCompressor(level=level).compress(data))
    raise CompressionError(f"compression type {kind} is unknown; use 1 (LZ4), 2 (ZSTD) or 3 (ZLIB)")


def decompress(data: bytes, kind: int, limit: int) -> bytes:
    """Inflate `data` to at most `limit` bytes. Raises `CompressionError` if it is damaged or larger, or `kind` is
    unknown."""
    if kind in (ZLIB, LEGACY_ZLIB):
        return _inflate_zlib(data, limit)
    if kind == LZ4:
        return _inflate_lz4(data, limit)
    if kind == ZSTD:
        return _inflate_zstd(data, limit)
    raise CompressionError(f"compression type {kind} is unknown; the producer must use zlib, LZ4 or Zstandard")


def decompress_by_flag(data: bytes, sys_flag: int, limit: int) -> bytes:
    """Return the inflated body of a message with this sys flag, or `data` itself if bit 0 is clear."""
    return decompress(data, compression_type(sys_flag), limit) if sys_flag & COMPRESSED_FLAG else data


def _inflate_zlib(data: bytes, limit: int) -> bytes:
    inflater = zlib.decompressobj()
    try:
        # Request one byte more than allowed: this shows whether there is more.
        plain = inflater.decompress(data, limit + 1)
    except zlib.error as error:
        raise _cannot("zlib", data, error) from None
    if len(plain) > limit:
        raise _too_large("zlib", limit)
    if not inflater.eof:
        raise _cut_off("zlib", data)
    return plain


def _inflate_lz4(data: bytes, limit: int) -> bytes:
    """Inflate in growing pieces, because this decompressor allocates its whole limit in advance."""
    inflater = _lz4().LZ4FrameDecompressor()
    parts: list[bytes] = []
    size, piece, rest = 0, max(LZ4_PIECE, 2 * len(data)), data
    try:
        while not inflater.eof:
            part: bytes = inflater.decompress(rest, min(piece, limit + 1 - size))
            size += len(part)
            if size > limit:
                raise _too_large("LZ4", limit)
            if not part and not inflater.eof:
                raise _cut_off("LZ4", data)
            parts.append(part)
            piece, rest = 2 * piece, b""
    except RuntimeError as error:
        raise _cannot("LZ4", data, error) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _inflate_zstd(data: bytes, limit: int) -> bytes:
    """Inflate in small pieces, because this decompressor has no limit: a piece cannot produce more than 11 MiB."""
    module = _zstandard()
    inflater = module.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    size = 0
    try:
        for at in range(0, len(data), ZSTD_PIECE):
            part: bytes = inflater.decompress(data[at : at + ZSTD_PIECE])
            size += len(part)
            if size > limit:
                raise _too_large("Zstandard", limit)
            parts.append(part)
            if inflater.eof:
                return b"".join(parts)
    except module.ZstdError as error:
        raise _cannot("Zstandard", data, error) from None
    raise _cut_off("Zstandard", data)


def _cannot(name: str, data: bytes, error: Exception) -> CompressionError:
    return CompressionError(f"a {name} body of {len(data)} bytes cannot be inflated ({error}); send it again")


def _cut_off(name: str, data: bytes) -> CompressionError:
    return CompressionError(f"a {name} body of {len(data)} bytes ends before its end mark; send it again")


def _too_large(name: str, limit: int) -> CompressionError:
    return CompressionError(
        f"a {name} body inflates to more than {limit} bytes; send smaller messages or raise the limit"
    )


def _lz4() -> Any:
    try:
        import lz4.frame
    except ImportError:
        raise CompressionMissing("an LZ4 body needs the package lz4; install it") from None
    return lz4.frame


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise CompressionMissing("a Zstandard body needs the package zstandard; install it") from None
    return zstandard
