"""Offsets that groups committed at a slave while its master was away, so that its return does not take them back."""

from __future__ import annotations


class CommitsAhead:
    """For each offset committed here, by `topic@group` and queue id, the last one that the master gave."""

    def __init__(self) -> None:
        self._before: dict[str, dict[int, int]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._before

    def note(self, key: str, queue_id: int, before: int) -> None:
        """Record a commit here; `before` is the master's offset, and only that of the first commit counts."""
        self._before.setdefault(key, {}).setdefault(queue_id, before)

    def ahead(self, key: str, theirs: dict[int, int], mine: dict[int, int]) -> dict[int, int]:
        """Offsets committed here that the master, which may be an older copy of itself, has not come to."""
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
        """Forget the commits of a group in a topic."""
        self._before.pop(key, None)
