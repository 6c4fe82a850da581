"""Result of `MessageStore.append`."""

from __future__ import annotations

from typing import final


@final
class Appended:
    """Position of an appended message. It is final only once the log is confirmed up to `end_offset`."""

    def __init__(self, *, physical_offset: int, size: int, queue_offset: int, store_timestamp: int) -> None:
        self.physical_offset = physical_offset
        self.size = size
        self.queue_offset = queue_offset
        self.store_timestamp = store_timestamp

    @property
    def end_offset(self) -> int:
        """Physical offset after the record, which `Parked` waits for."""
        return self.physical_offset + self.size
