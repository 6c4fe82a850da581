"""Pending server-side resets of consumer offsets (RocketMQ 5.x).

They are kept in memory only. After a restart the committed offset remains, which the reset has also set.
"""

from __future__ import annotations


class PendingResets:
    """Offsets to return to the next pulls, by `topic@group` and queue id."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[int, int]] = {}
        """Empty if no reset is pending. Every pull checks this first."""

    def put(self, key: str, queue_id: int, offset: int) -> None:
        """Set the offset to return to the next pull of this queue."""
        self.by_key.setdefault(key, {})[queue_id] = offset

    def get(self, key: str, queue_id: int) -> int | None:
        """Return the pending reset, or None."""
        reset = self.by_key.get(key)
        return None if reset is None else reset.get(queue_id)

    def take(self, key: str, queue_id: int) -> int:
        """Remove and return the pending reset, or -1 if there is none."""
        reset = self.by_key.get(key)
        if reset is None or queue_id not in reset:
            return -1
        offset = reset.pop(queue_id)
        if not reset:
            del self.by_key[key]
        return offset

    def forget(self, key: str) -> None:
        """Remove all resets of a group in a topic."""
        self.by_key.pop(key, None)
