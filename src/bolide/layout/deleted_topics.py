"""The file `deleted-topics` of a store: for each deleted topic, the log offset below which its records are invalid.

Only Bolide has this file; RocketMQ's broker ignores it. It contains a line of JSON for each deletion, in order: the
last one of a topic applies. A line truncated by a crash has no newline; that deletion was never acknowledged.
"""

from __future__ import annotations

import json
from typing import Final

from bolide.layout.errors import LayoutError

NAME: Final = "deleted-topics"


def mark_line(topic: str, physical_offset: int) -> bytes:
    """The line that says: records of this topic below this offset are deleted."""
    return json.dumps({"topic": topic, "offset": physical_offset}).encode() + b"\n"


def parse_marks(data: bytes) -> dict[str, int]:
    """Topic -> offset, the newest deletion last. Raises LayoutError for a line that is whole and yet cannot be read."""
    marks: dict[str, int] = {}
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            found = json.loads(line)
            topic, offset = str(found["topic"]), int(found["offset"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise LayoutError(
                f"line {number} of {NAME} is not a valid mark: without it deleted messages would reappear; "
                "restore the file from a copy, or delete the line"
            ) from error
        marks.pop(topic, None)
        marks[topic] = offset
    return marks
