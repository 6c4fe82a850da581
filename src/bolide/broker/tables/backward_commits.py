"""Commits that move a group's offset back: counted by group, and logged at a limited rate.

RocketMQ's ConsumerOffsetManager logs each one with NOTIFYME. Causes are a rebalance in which one queue is temporarily
assigned to two members, and a member that seeks back. The messages in between are redelivered.
"""

from __future__ import annotations

import logging
from typing import Final, final

MINUTE_MS: Final = 60_000
LINES_PER_MINUTE: Final = 10
"""Limit for all groups together. Each group is limited to one line."""


@final
class BackwardCommits:
    """Counts the commits in `counts`, by group. The log contains the queue and the client."""

    def __init__(self, counts: dict[str, int], log: logging.Logger) -> None:
        self._counts = counts
        self._log = log
        self._minute = 0
        self._logged: set[str] = set()
        """Groups with a line in the current minute."""

    def note(self, place: str, group: str, *, before: int, offset: int, client: str, now: int) -> None:
        """Count a commit of `offset` in the queue `place`, whose committed offset was `before`."""
        total = self._counts[group] = self._counts.get(group, 0) + 1
        if now // MINUTE_MS != self._minute:
            self._minute = now // MINUTE_MS
            self._logged.clear()
        if group in self._logged or len(self._logged) >= LINES_PER_MINUTE:
            return
        self._logged.add(group)
        self._log.warning(
            "group %s committed offset %d of %s from %s, below its committed offset %d: it consumes the messages "
            "between them again (%d such commits since the start)",
            group,
            offset,
            place,
            client,
            before,
            total,
        )
