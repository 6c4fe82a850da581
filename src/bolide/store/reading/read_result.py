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
    """Selects the records of a queue to read; None selects all.

    tag_codes: tags codes of the unit; predicate: of the record's raw properties; units: what a filter bitmap surely
    leaves out; enough: ends the search early, so that the next read continues it; bulk: by the limits of bulk pulls.
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
        """The client's next offset, corrected if its offset was wrong (a slave returns the old one then)."""
        self.min_offset: i64 = min_offset
        self.max_offset: i64 = max_offset
        self.buffers: list[bytes | memoryview] = []
        """Whole records in queue order; one buffer may contain several. Large or isolated records are what `Files`
        read, or views into it; adjacent small records are copied together."""
        self.first_offset: i64 = -1
        """Physical offset of the first record in `buffers`, or -1."""
        self.size: i64 = 0
        self.message_count: i64 = 0
        self.last_physical_offset: i64 = 0
        """Physical offset of the last unit scanned, matching or not."""
        self.suggest_slave = False
        """Whether the reader is so far behind the end of the log that a slave should serve it."""
        self.cold: list[Extent] = []
