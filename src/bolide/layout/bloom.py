"""The Bloom filter of filter bitmaps, which selects the bits of a consumer group for a topic. RocketMQ's BloomFilter.

The hash is murmur3 x64 128 of ``group#topic`` with seed 0. Only its low 64 bits are used.
"""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct

from bolide.errors import ConfigError

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


class BloomFilter(Struct, frozen=True):
    """A Bloom filter of `bits` bits that sets `hashes` bits for each member."""

    hashes: int
    bits: int

    @classmethod
    def of(cls, error_rate: int, expected: int) -> BloomFilter:
        """Return the filter for an error rate in percent (1 to 99) and `expected` members. Raises `ConfigError`."""
        if not 0 < error_rate < 100:
            raise ConfigError(f"maxErrorRateOfBloomFilter is {error_rate}: it must be 1 to 99 percent")
        if expected < 1:
            raise ConfigError(f"expectConsumerNumUseFilter is {expected}: it must be at least 1")
        rate = error_rate / 100.0
        hashes = math.ceil(math.log(rate) / math.log(0.5))
        bits = math.ceil(expected * (math.log(1 / rate) / math.log(2)) * (math.log(math.e) / math.log(2)))
        return cls(hashes, 8 * math.ceil(bits / 8))

    def positions(self, text: str) -> list[int]:
        """Return the bit positions of a member, in the order of the hashes. Positions may repeat."""
        low = _murmur3_low(text.encode("utf-8"))
        first = _int32(low)
        second = _int32(low >> 32)
        found: list[int] = []
        for i in range(1, self.hashes + 1):
            combined = _int32(first + i * second)
            found.append((combined if combined >= 0 else ~combined) % self.bits)
        return found


def member_text(consumer_group: str, topic: str) -> str:
    """Return the text that is hashed for a group and a topic."""
    return f"{consumer_group}#{topic}"


def empty_bitmap(bits: int) -> bytearray:
    """Return a bitmap with no bit set."""
    return bytearray((bits + 7) // 8)


def set_bits(bitmap: bytearray, positions: list[int] | tuple[int, ...]) -> None:
    """Set bits. Bit 0 is the lowest bit of the first byte."""
    for position in positions:
        bitmap[position >> 3] |= 1 << (position & 7)


def has_bits(bitmap: bytes, positions: list[int] | tuple[int, ...]) -> bool:
    """Return whether all these bits are set. Bits beyond the bitmap are treated as not set."""
    for position in positions:
        if position >> 3 >= len(bitmap) or not bitmap[position >> 3] >> (position & 7) & 1:
            return False
    return True


def _int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - 0x100000000 if value >= 0x80000000 else value


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _finish(h: int) -> int:
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & _MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ (h >> 33)


def _mix1(k: int) -> int:
    return _rotate(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix2(k: int) -> int:
    return _rotate(k * _C2 & _MASK, 33) * _C1 & _MASK


def _murmur3_low(data: bytes) -> int:
    h1 = h2 = 0
    whole = len(data) // 16 * 16
    for at in range(0, whole, 16):
        h1 ^= _mix1(int.from_bytes(data[at : at + 8], "little"))
        h1 = (_rotate(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mix2(int.from_bytes(data[at + 8 : at + 16], "little"))
        h2 = (_rotate(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    h2 ^= _mix2(int.from_bytes(tail[8:], "little"))
    h1 ^= _mix1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1 = _finish(h1)
    h2 = _finish(h2)
    return (h1 + h2) & _MASK
