"""Start position of a group without offsets: RocketMQ's ConsumeFromWhere."""

from __future__ import annotations

from typing import Literal

from bolide.client.messages.moment import Moment, moment_ms

StartFrom = Literal["first", "last"] | Moment
"""Start position of a new group: ``"last"``, ``"first"``, or a time."""


def start_ms(argument: str, start: StartFrom) -> int:
    """Return the start as in RocketMQ's requests: 0 for the first message, -1 for the end, or ms since 1970.

    Raises `ArgumentError`.
    """
    if start == "first" or start == "last":
        return 0 if start == "first" else -1
    return moment_ms(argument, start, words='"first", "last", ')


def start_name(start_from: StartFrom) -> str:
    """Return Java's name for the start position, as in the heartbeat. Raises `ArgumentError`."""
    start_ms("start_from", start_from)
    if start_from == "first":
        return "CONSUME_FROM_FIRST_OFFSET"
    return "CONSUME_FROM_LAST_OFFSET" if start_from == "last" else "CONSUME_FROM_TIMESTAMP"
