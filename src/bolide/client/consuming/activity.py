"""The latest activity of a push consumer, for a liveness probe."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bolide.client.consuming.process_queue import ProcessQueue
from bolide.errors import BolideError
from bolide.layout.names import RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class Activity:
    """Times are elapsed seconds, or None if the event never happened. Retry queues are excluded, because they are
    pulled even if listeners hang."""

    queues: int
    """Number of queues held now."""
    paused: bool
    """Whether no queue is pulled: the consumer has no queue although no broker rejects it, or all are paused."""
    last_pull: float | None
    """Time since the last pull was sent, without pulls that the broker rejected because of the group or its
    expression."""
    last_listener: float | None
    """Time since the last listener call ended."""
    refusal: str = ""
    """The brokers' error if they reject queues or topics of the consumer, otherwise ""."""

    @property
    def idle(self) -> float | None:
        """Seconds since the last activity, or None if the consumer has not been active yet."""
        return min((ago for ago in (self.last_pull, self.last_listener) if ago is not None), default=None)


def activity_of(
    owned: Iterable[ProcessQueue], paused: bool, listened: float, now: float, refusal: BolideError | None = None
) -> Activity:
    """Return the activity at `now`, by the loop's clock. `listened` is the end time of the last listener call, or 0 if
    there was none."""
    queues = [each for each in owned if not each.queue.topic.startswith(RETRY_PREFIX)]
    pulled = max((each.last_unrefused_pull for each in queues), default=0.0)
    return Activity(
        len(queues),
        paused if queues else refusal is None,
        now - pulled if pulled else None,
        now - listened if listened else None,
        "" if refusal is None else str(refusal),
    )
