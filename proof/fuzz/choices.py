"""Bytes read as decisions, so that any input is a well-formed structure with odd values in it.

An input that ends early is continued with zeros: the first choice of each kind, the empty text, the number 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

T = TypeVar("T")

NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 4, 6, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 255, 256, 1000, 4095, 4096, 32_767, 32_768),
    *(65_535, 65_536, 70_000_000, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**32, 2**53, 2**62, 2**63 - 1, 2**63),
    *(-(2**63), -(2**63) - 1, 2**64, 10**30, 1_700_000_000_000, 253_402_300_800_000),
)
"""Numbers at which something changes its type, its sign or its meaning."""
TEXTS: Final = (
    *("", " ", "*", "a", "T", "TAG", "SQL92", "null", "true", "FALSE", "-", "+1", "1.5", "1e5", "1e999", "NaN", "\0"),
    *("\x01", "\x02", "a\x01b\x02", "../../x", "/", ".", "..", "%RETRY%g", "%DLQ%g", "%LMQ%a", "SCHEDULE_TOPIC_XXXX"),
    *("RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_wheel_timer", "CID_RMQ_SYS_TRANS", "TBW102"),
    *(
        "中文",
        "\U0001f600",
        "\ud800",
        "\ufeff",
        "٣",
        "²",
        "a" * 127,
        "a" * 128,
        "a" * 256,
        "9" * 40,
        "{",
        "[]",
        '{"a":1}',
    ),
    *("127.0.0.1:1", "[::1]:80", "a@b", "a#b", "a;b", "a,b", "a:b:c", "||", "a||b", "a > 1", "a IS NULL", "0" * 32),
)
"""Texts that something takes for a number, a name, a path, a filter or an end."""


class Choices:
    """A cursor over the bytes of one input."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        """Bytes that nothing has been decided with."""
        return max(len(self._data) - self._at, 0)

    def byte(self) -> int:
        """The next byte, 0 after the end."""
        self._at += 1
        return self._data[self._at - 1] if self._at <= len(self._data) else 0

    def below(self, count: int) -> int:
        """A number from 0 to `count` - 1."""
        if count <= 1:
            return 0
        if count <= 256:
            return self.byte() % count
        return (self.byte() << 8 | self.byte()) % count

    def flag(self) -> bool:
        """Yes or no; rather no."""
        return self.byte() % 4 == 3

    def pick(self, items: Sequence[T]) -> T:
        """One of them."""
        return items[self.below(len(items))]

    def piece(self, most: int | None = None) -> bytes:
        """Some bytes as they are, after a byte or two that say how many."""
        size = self.byte()
        if size >= 0xF0:
            size = (size & 0xF) << 8 | self.byte()
        size = min(size, self.left, size if most is None else most)
        self._at += size
        return self._data[self._at - size : self._at]

    def rest(self) -> bytes:
        """All that is left."""
        at, self._at = min(self._at, len(self._data)), len(self._data)
        return self._data[at:]

    def number(self) -> int:
        """An odd number, a small one, or any of 64 bits."""
        kind = self.byte()
        if kind < 128:
            return NUMBERS[kind % len(NUMBERS)]
        if kind < 192:
            return kind - 128
        return int.from_bytes(self.piece(8), "big", signed=True)

    def text(self) -> str:
        """An odd text, a number, or any bytes as text."""
        kind = self.byte()
        if kind < 128:
            return TEXTS[kind % len(TEXTS)]
        if kind < 160:
            return str(self.number())
        return self.piece().decode("utf-8", "replace")
