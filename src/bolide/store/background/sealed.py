"""The offset below which log, queues and index are on disk and no longer change."""

from __future__ import annotations


class Sealed:
    """Follows the rounds in which maintenance flushes and syncs queues and index. Offsets are physical offsets."""

    def __init__(self) -> None:
        self.offset = 0
        """Below it, the log is synced, and queues and index contain its records and are synced."""
        self.cuts = 0
        """Number of truncations of the log since the start, including a running one."""
        self._round = 0
        self._syncing = 0
        self._synced_from = 0

    def started(self, end: int) -> None:
        """Called when the store is recovered up to `end`. The first sync seals the log."""
        self._synced_from = end

    def grown(self, dispatched: int) -> int:
        """Return the number of bytes dispatched since the start of the last sync."""
        return dispatched - self._synced_from

    def round_began(self, dispatched: int, flushed: int) -> None:
        """Called at the start of a flush round, which writes the dispatched units. The log is synced up to
        `flushed`."""
        self._round = min(dispatched, flushed)

    def sync_began(self, dispatched: int) -> None:
        """Called at the start of a sync of the files of the last round."""
        self._syncing = self._round
        self._synced_from = dispatched

    def synced(self) -> None:
        """Called when the last sync is complete, or was not necessary."""
        self.offset = self._syncing

    def cut(self, end: int) -> None:
        """Called before a truncation of the log to `end`."""
        self.cuts += 1
        self.offset = min(self.offset, end)
        self._round = min(self._round, end)
        self._syncing = min(self._syncing, end)
        self._synced_from = min(self._synced_from, end)
