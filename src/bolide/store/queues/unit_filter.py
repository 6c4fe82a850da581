"""What a pull makes of filter bitmaps: leaves out records that surely fail a group's expression, reading none of them.

RocketMQ's ExpressionMessageFilter.isMatchedByConsumeQueue: the bits of the group are set in the bitmap of every record
that passed its expression when it was dispatched, so a bit that is not set means that it did not.
"""

from __future__ import annotations

from bolide.layout.bloom import has_bits


class UnitFilter:
    """The bits of one group at one topic, meaningful for records stored after `born_time` (ms since the epoch)."""

    def __init__(self, positions: list[int], bits: int, born_time: int) -> None:
        self.positions = positions
        self._bits = bits
        self._born_time = born_time

    def passes(self, store_timestamp: int, bitmap: bytes) -> bool:
        """False when the record surely does not match; True says nothing."""
        if store_timestamp <= self._born_time or len(bitmap) * 8 != self._bits:
            return True
        return has_bits(bitmap, self.positions)
