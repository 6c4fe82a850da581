"""Server-side resets of consumer offsets that wait for the next pull of their queue (RocketMQ 5.x).

They are kept in memory only: a restart leaves the committed offset, which the reset has set, too.
"""

from __future__ import annotations


class PendingResets:
    """The offsets that the next pulls are answered with, by `topic@group` and queue id."""

    def __init__(self) -> None:
        self.by_key: dict[str, dict[int, int]] = {}
        """Empty while no reset waits, which every pull looks at first."""

    def put(self, key: str, queue_id: int, offset: int) -> None:
        """Let the next pull of this queue be answered with `offset`."""
        self.by_key.setdefault(key, {})[queue_id] = offset

    def get(self, key: str, queue_id: int) -> int | None:
        """Return the offset that waits, or None."""
        reset = self.by_key.get(key)
        return None if reset is None else reset.get(queue_id)

    def take(self, key: str, queue_id: int) -> int:
        """Return the offset that waits and remove it; -1 when there is none."""
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
