"""Whether the consumers of a worker are alive, as a page for the probes of Kubernetes and the like.

The page is served on a thread of its own, so it answers while the loop is blocked, and says so. A broker or a name
server that cannot be reached is no reason to restart a worker: its consumers go on trying, which counts as work.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bolide.client.consuming.activity import Activity
from bolide.client.consuming.push_consumer import PushConsumer
from bolide.monitor.http import PageAnswer, Request

BEAT: Final = 1.0
"""Seconds between two looks at the consumers, on the loop."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The activity of each consumer at a time, and since when it counts as at work."""

    seen: Mapping[str, Activity]
    since: Mapping[str, float]
    at: float


class WorkerHealth:
    """Looks at the consumers on their loop once a second (`beat`), and reports on any thread. Times are seconds."""

    def __init__(
        self, consumers: Sequence[PushConsumer], late_after: float, silent_after: float, monotonic: Callable[[], float]
    ) -> None:
        self.started = False
        """Whether all clients have started and none is being stopped."""
        self._consumers = consumers
        self._late_after = late_after
        self._silent_after = silent_after
        self._monotonic = monotonic
        self._since: dict[str, float] = {}
        self._looks = Snapshot({}, {}, monotonic())

    async def beat(self) -> None:
        """Look until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(BEAT)

    def look(self) -> None:
        """Look at the consumers now."""
        now = self._monotonic()
        seen: dict[str, Activity] = {}
        for number, consumer in enumerate(self._consumers):
            name = consumer.group if consumer.group not in seen else f"{consumer.group} {number}"
            found = seen[name] = consumer.activity()
            # A consumer that is paused, or has just got its first queue, is not silent: its time starts again.
            if found.paused or not self.started or name not in self._since:
                self._since[name] = now
        self._looks = Snapshot(seen, dict(self._since), now)

    def report(self) -> dict[str, Any]:
        """Return what the page says: `alive`, the reasons if not, the lateness of the loop, and each consumer."""
        looks = self._looks  # replaced as a whole, by another thread
        seen, since, looked = looks.seen, looks.since, looks.at
        ago = self._monotonic() - looked
        late = max(0.0, ago - BEAT)
        reasons = [f"the event loop is {late:.1f} s late: something blocks it"] if late > self._late_after else []
        for name, found in seen.items() if self.started else ():
            idle = found.idle
            silent = looked - since[name] if idle is None else min(idle, looked - since[name])
            if not found.paused and silent + ago > self._silent_after:
                reasons.append(f"consumer {name} has neither pulled nor ended a listener call for {silent + ago:.0f} s")
        return {
            "alive": not reasons,
            "reasons": reasons,
            "loop_late_s": round(late, 3),
            "consumers": {name: _shown(found, ago) for name, found in seen.items()},
        }

    async def alive(self, request: Request) -> PageAnswer:
        """Serve /healthz: 200, or 503 for a process to be restarted."""
        report = self.report()
        return _page(200 if report["alive"] else 503, report)

    async def ready(self, request: Request) -> PageAnswer:
        """Serve /readyz: 200 from the start of all clients to the first signal."""
        return _page(200 if self.started else 503, {"ready": self.started})


def _shown(found: Activity, ago: float) -> dict[str, Any]:
    def shown(seconds: float | None) -> float | None:
        return None if seconds is None else round(seconds + ago, 3)

    return {
        "queues": found.queues,
        "paused": found.paused,
        "last_pull_s": shown(found.last_pull),
        "last_listener_s": shown(found.last_listener),
    }


def _page(status: int, content: dict[str, Any]) -> PageAnswer:
    return PageAnswer(status, json.dumps(content).encode() + b"\n", "application/json")
