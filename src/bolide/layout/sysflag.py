"""Bits of a message's sys flag: RocketMQ's MessageSysFlag and CompressionType (docs/protocol/remoting.md 10)."""

from __future__ import annotations

from typing import Final

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2

TRANSACTION_MASK: Final = 0xC
TRANSACTION_NONE: Final = 0x0
TRANSACTION_PREPARED: Final = 0x4
TRANSACTION_COMMIT: Final = 0x8
TRANSACTION_ROLLBACK: Final = 0xC

BORN_HOST_V6: Final = 0x10
STORE_HOST_V6: Final = 0x20

NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80

COMPRESSION_MASK: Final = 0x700
COMPRESSION_SHIFT: Final = 8
COMPRESSION_LEGACY: Final = 0
"""Type bits of producers before 4.9.4, which supported only zlib."""
COMPRESSION_LZ4: Final = 1
COMPRESSION_ZSTD: Final = 2
COMPRESSION_ZLIB: Final = 3


def transaction_type(sys_flag: int) -> int:
    """Return the transaction bits: one of the TRANSACTION_ constants."""
    return sys_flag & TRANSACTION_MASK


def compression_type(sys_flag: int) -> int:
    """Return the type bits, 0 to 7. They are valid only if COMPRESSED is set, and 0 then means zlib."""
    return (sys_flag & COMPRESSION_MASK) >> COMPRESSION_SHIFT
