"""Delay levels: the table in messageDelayLevel, and delivery times. RocketMQ's ScheduleMessageService."""

from __future__ import annotations

from typing import Final

from bolide.errors import ConfigError

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNKNOWN_LEVEL_MS: Final = 1_000


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Return the delays of level 1, 2, ... in ms, from a text such as ``1s 5s 10s``. Raises ConfigError."""
    levels: list[int] = []
    for word in text.split():
        unit = _UNITS_MS.get(word[-1])
        if unit is None or not word[:-1].isdecimal():
            raise ConfigError(
                f"messageDelayLevel has {word!r} as level {len(levels) + 1}: write a whole number and s, m, h or d"
            )
        levels.append(int(word[:-1]) * unit)
    return tuple(levels)


def delivery_time(levels_ms: tuple[int, ...], level: int, store_timestamp: int) -> int:
    """Return when a message of this level is due, in ms since the epoch. An undefined level means one second."""
    if 1 <= level <= len(levels_ms):
        return store_timestamp + levels_ms[level - 1]
    return store_timestamp + _UNKNOWN_LEVEL_MS


def queue_of_level(level: int) -> int:
    """Return the queue of the schedule topic that contains a level."""
    return level - 1


def level_of_queue(queue_id: int) -> int:
    """Return the level that a queue of the schedule topic contains."""
    return queue_id + 1
