"""Loads data that a tick needs and that is not in memory. The pool reads it, and a later tick continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from bolide.broker.core.effects import Effects
from bolide.store.disk.extents import Extent
from bolide.store.message_store import MessageStore


@final
class ColdLoads:
    """Loads for one service, one at a time, so that its background work takes one thread of the pool."""

    def __init__(self, store: MessageStore, effects: Effects, then: Callable[[int], None]) -> None:
        """`then(now)` must wake the service. It is called after each load."""
        self.active: bool = False
        self.ended: int = 0
        """Number of loads that have ended."""
        self._store: MessageStore = store
        self._effects: Effects = effects
        self._then: Callable[[int], None] = then
        self._wanted: list[Extent] = []
        self._record: int = -1
        """Offset of the record loaded last, until it is read."""

    def want(self, extent: Extent) -> int:
        """Load an extent with the next `begin`. Return the number of that load, or 0 during another load."""
        if self.active:
            return 0
        self._wanted.append(extent)
        return self.ended + 1

    def begin(self) -> None:
        """Load the wanted extents, if there are any."""
        if self._wanted:
            self.active = True
            self._effects.load(self._wanted, self._done)
            self._wanted = []

    def lacks(self, physical_offset: int, size: int) -> bool:
        """Return whether a record of the log is not in memory. It is then being loaded, and the caller must stop.

        If a record leaves memory again after its load, the next read waits for the disk. Raises `FileFailed`.
        """
        loaded, self._record = self._record, -1
        cold = None if loaded == physical_offset else self._store.cold_record(physical_offset, size)
        if cold is not None:
            self._record = physical_offset
            self.want(cold)
            self.begin()
        return cold is not None

    def _done(self, now: int) -> None:
        self.active = False
        self.ended += 1
        self._then(now)
