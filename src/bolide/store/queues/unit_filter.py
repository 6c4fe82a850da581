"""Filter bitmaps for pulls: skips records that certainly fail a group's expression, without reading them.

RocketMQ's ExpressionMessageFilter.isMatchedByConsumeQueue: the bits of the group are set in the bitmap of every record
that passed its expression at dispatch, so an unset bit means that it did not.
"""

from __future__ import annotations

from bolide.layout.bloom import has_bits


class UnitFilter:
    """The bits of one group for one topic, valid for records stored after `born_time` (ms since the epoch)."""

    def __init__(self, positions: list[int], bits: int, born_time: int) -> None:
        self.positions = positions
        self._bits = bits
        self._born_time = born_time

    def passes(self, store_timestamp: int, bitmap: bytes) -> bool:
        """Return False if the record certainly does not match, True if it may match."""
        if store_timestamp <= self._born_time or len(bitmap) * 8 != self._bits:
            return True
        return has_bits(bitmap, self.positions)
