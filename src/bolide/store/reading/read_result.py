"""The selection of a pull and its result: RocketMQ's GetMessageResult and GetMessageStatus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from bolide.store.disk.extents import Extent
from bolide.store.queues.unit_filter import UnitFilter

FOUND: Final = 0
NO_MATCHED_MESSAGE: Final = 1
MESSAGE_WAS_REMOVING: Final = 2
OFFSET_FOUND_NULL: Final = 3
OFFSET_OVERFLOW_BADLY: Final = 4
OFFSET_OVERFLOW_ONE: Final = 5
OFFSET_TOO_SMALL: Final = 6
NO_MATCHED_LOGIC_QUEUE: Final = 7
NO_MESSAGE_IN_QUEUE: Final = 8
OFFSET_RESET: Final = 9

STATUS_NAMES: Final = (
    "FOUND",
    "NO_MATCHED_MESSAGE",
    "MESSAGE_WAS_REMOVING",
    "OFFSET_FOUND_NULL",
    "OFFSET_OVERFLOW_BADLY",
    "OFFSET_OVERFLOW_ONE",
    "OFFSET_TOO_SMALL",
    "NO_MATCHED_LOGIC_QUEUE",
    "NO_MESSAGE_IN_QUEUE",
    "OFFSET_RESET",
)
"""Java's names by number, for the remark of a response."""


def status_name(status: int) -> str:
    """Return Java's name of a status."""
    return STATUS_NAMES[status]


@final
class Wanted:
    """Selects the records of a queue to read. Each filter selects all records if it is None.

    `tag_codes`: accepted tags codes. `predicate`: called with the raw properties of a record. `units`: skips records by
    their filter bitmaps. `enough`: returns True to end the read early, so that the next read continues. `bulk`: whether
    the limits of bulk pulls apply.
    """

    def __init__(
        self,
        tag_codes: set[int] | None = None,
        predicate: Callable[[bytes], bool] | None = None,
        units: UnitFilter | None = None,
        enough: Callable[[], bool] | None = None,
        bulk: bool = False,
    ) -> None:
        self.tag_codes: set[int] | None = tag_codes
        self.predicate: Callable[[bytes], bool] | None = predicate
        self.units: UnitFilter | None = units
        self.enough: Callable[[], bool] | None = enough
        self.bulk: bool = bulk


EVERY_RECORD: Final = Wanted()


@final
class ReadResult:
    """The result of a pull. If `cold` is not empty, ignore the rest: load the extents, then repeat the read."""

    def __init__(self, status: i64, next_begin_offset: i64, min_offset: i64, max_offset: i64) -> None:
        self.status: i64 = status
        self.next_begin_offset: i64 = next_begin_offset
        """Next offset of the client, corrected if its offset was out of range. A slave then returns the old offset."""
        self.min_offset: i64 = min_offset
        self.max_offset: i64 = max_offset
        self.buffers: list[bytes | memoryview] = []
        """Complete records in queue order. A buffer may contain several. Large or isolated records are in the bytes
        that `Files` returned, or in views of them. Nearby small records are copied together."""
        self.first_offset: i64 = -1
        """Physical offset of the first record in `buffers`, or -1."""
        self.size: i64 = 0
        self.message_count: i64 = 0
        self.last_physical_offset: i64 = 0
        """Physical offset of the last unit scanned, matching or not."""
        self.suggest_slave = False
        """Whether the reader is so far behind the end of the log that a slave should serve it."""
        self.cold: list[Extent] = []
