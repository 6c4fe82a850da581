"""Where a group starts that has no offsets yet: RocketMQ's ConsumeFromWhere."""

from __future__ import annotations

from datetime import UTC, datetime

from bolide.errors import ArgumentError

StartFrom = str | int | datetime
"""Where a new group starts: ``"last"``, ``"first"``, or a time (ms since 1970, or a datetime)."""


def start_name(start_from: StartFrom) -> str:
    """Java's name for it, as it stands in the heartbeat. Raises `ArgumentError`."""
    if start_from == "last":
        return "CONSUME_FROM_LAST_OFFSET"
    if start_from == "first":
        return "CONSUME_FROM_FIRST_OFFSET"
    if isinstance(start_from, int | datetime) and not isinstance(start_from, bool):
        return "CONSUME_FROM_TIMESTAMP"
    raise ArgumentError(f'start_from={start_from!r} is unknown, give "last", "first", or a time', "start_from")


def timestamp_ms(moment: int | datetime) -> int:
    """Milliseconds since 1970; a datetime without a zone is local time."""
    return moment if isinstance(moment, int) else int(moment.astimezone(UTC).timestamp() * 1000)
