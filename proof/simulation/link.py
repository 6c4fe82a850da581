"""One direction between two simulated machines: when the bytes of a write arrive, and in which pieces."""

from __future__ import annotations

import random


class Link:
    """One direction between two machines."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.base_s = 10 ** chance.uniform(-4.5, -3.0)
        self.jitter_s = self.base_s * chance.uniform(0.0, 3.0)
        self.spike = 0.002
        """Part of the pieces that come much later than the others."""
        self.split = chance.choice((0.0, 0.02, 0.2))
        """Part of the writes that arrive in several pieces."""
        self.bytes_per_s = 10 ** chance.uniform(7.0, 9.0)
        self.slowed = 1.0
        self.blocked = False
        self._free_at = 0.0

    def arrival(self, now: float, size: int) -> float:
        """When bytes that are sent now arrive."""
        chance = self.chance
        self._free_at = max(self._free_at, now) + size * self.slowed / self.bytes_per_s
        took = self.base_s + chance.random() * self.jitter_s
        if chance.random() < self.spike:
            took *= 1 + 200 * chance.random()
        return self._free_at + took * self.slowed

    def pieces(self, data: bytes) -> list[bytes]:
        """How the bytes of one write are cut."""
        size, chance = len(data), self.chance
        if size < 2 or chance.random() >= self.split:
            return [data]
        cuts = sorted({chance.randrange(1, size) for _ in range(chance.randint(1, 4))})
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, size], strict=True)]
