"""Offsets that groups committed on a slave while its master was down. The master's return must not undo them."""

from __future__ import annotations


class CommitsAhead:
    """The master's last offset before each commit on this broker, by `topic@group` and queue id."""

    def __init__(self) -> None:
        self._before: dict[str, dict[int, int]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._before

    def note(self, key: str, queue_id: int, before: int) -> None:
        """Record a commit on this broker. `before`: the master's offset, recorded only at the first commit."""
        self._before.setdefault(key, {}).setdefault(queue_id, before)

    def ahead(self, key: str, theirs: dict[int, int], mine: dict[int, int]) -> dict[int, int]:
        """Return offsets committed here that the master has not reached.

        Drop offsets that it has reached, and offsets of queues whose offset it has moved back.
        """
        since = self._before[key]
        kept = {
            queue_id: mine[queue_id]
            for queue_id, before in since.items()
            if queue_id in mine and before <= theirs.get(queue_id, -1) < mine[queue_id]
        }
        self._before[key] = {queue_id: since[queue_id] for queue_id in kept}
        if not kept:
            del self._before[key]
        return kept

    def forget(self, key: str) -> None:
        """Remove the commits of a group in a topic."""
        self._before.pop(key, None)
