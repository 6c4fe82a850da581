"""A cursor over a queue of a real store. While its files are `cold`, data must be loaded before it is read."""

from __future__ import annotations

from pathlib import Path

from bolide.broker.cursor.cold_loads import ColdLoads
from bolide.broker.cursor.queue_cursor import QueueCursor
from tests.broker.parts import NOW, Parts, message
from tests.store.parts import ColdFiles


class Following(Parts):
    """The parts, with a cursor over queue 1 of topic T. Each message has its number as body."""

    def __init__(self, folder: Path) -> None:
        self.files = ColdFiles()
        super().__init__(folder, self.files)
        self.woken: list[int] = []
        self.loads = ColdLoads(self.store, self.effects, self.woken.append)
        self.cursor = QueueCursor(self.store, "T", 1, self.loads)

    def put(self, count: int, size: int = 1) -> list[tuple[int, int]]:
        """Store messages, and return (physical offset, size) of each."""
        places = []
        for number in range(count):
            appended = self.writer.put(message("T", 1, b"%d" % number * size, ""), NOW)
            places.append((int(appended.physical_offset), int(appended.size)))
        self.settle()
        return places

    def load(self, warm: bool = True, now: int = NOW) -> int:
        """Run the active loads. Return the number of extents."""
        found = 0
        for extents, then in self.effects.take().loads:
            found += len(extents)
            for extent in extents if warm else ():
                self.files.warm(extent.path, extent.offset, extent.size)
            then(now)
        return found
