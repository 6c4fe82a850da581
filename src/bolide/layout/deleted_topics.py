"""The file `deleted-topics` of a store: for each deleted topic, the log offset below which its records are invalid.

Only Bolide has this file; RocketMQ's broker ignores it. It contains one line of JSON per deletion, in order. The last
line of a topic applies. A line truncated by a crash has no newline, and its deletion was never acknowledged.
"""

from __future__ import annotations

import json
from typing import Final

from bolide.layout.errors import LayoutError

NAME: Final = "deleted-topics"


def mark_line(topic: str, physical_offset: int) -> bytes:
    """Return the line that marks the records of a topic below a physical offset as deleted."""
    return json.dumps({"topic": topic, "offset": physical_offset}).encode() + b"\n"


def parse_marks(data: bytes) -> dict[str, int]:
    """Return the offset of each deleted topic, newest deletion last. Raises LayoutError for an invalid whole line."""
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
