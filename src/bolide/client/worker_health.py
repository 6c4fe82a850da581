"""Liveness of a worker's consumers, as a page for the probes of Kubernetes and similar systems.

A dedicated thread serves the page, so it responds and reports the lateness while the loop is blocked. An unreachable
broker or name server must not restart a worker: its consumers keep retrying, which is treated as activity. A pull that
a broker rejects, for example because the group lost its right, is not.
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
"""Interval of the checks of consumers on the loop, in seconds."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The activity of each consumer at time `at`, and the start of its current silence check."""

    seen: Mapping[str, Activity]
    since: Mapping[str, float]
    at: float


class WorkerHealth:
    """Checks the consumers on their loop once a second (`beat`), and reports on any thread. Times are seconds."""

    def __init__(
        self, consumers: Sequence[PushConsumer], late_after: float, silent_after: float, monotonic: Callable[[], float]
    ) -> None:
        self.started = False
        """Whether all clients have started and are not being stopped."""
        self._consumers = consumers
        self._late_after = late_after
        self._silent_after = silent_after
        self._monotonic = monotonic
        self._since: dict[str, float] = {}
        self._looks = Snapshot({}, {}, monotonic())

    async def beat(self) -> None:
        """Check the consumers until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(BEAT)

    def look(self) -> None:
        """Check the consumers now."""
        now = self._monotonic()
        seen: dict[str, Activity] = {}
        for number, consumer in enumerate(self._consumers):
            name = consumer.group if consumer.group not in seen else f"{consumer.group} {number}"
            found = seen[name] = consumer.activity()
            # Restart the check of a consumer that is paused, or has just got its first queue.
            if found.paused or not self.started or name not in self._since:
                self._since[name] = now
        self._looks = Snapshot(seen, dict(self._since), now)

    def report(self) -> dict[str, Any]:
        """Return the content of the page: `alive`, the reasons if not, the lateness of the loop, and each consumer."""
        looks = self._looks  # another thread replaces the whole object
        seen, since, looked = looks.seen, looks.since, looks.at
        ago = self._monotonic() - looked
        late = max(0.0, ago - BEAT)
        reasons = [f"the event loop is {late:.1f} s late: something blocks it"] if late > self._late_after else []
        for name, found in seen.items() if self.started else ():
            idle = found.idle
            silent = looked - since[name] if idle is None else min(idle, looked - since[name])
            if not found.paused and silent + ago > self._silent_after:
                why = f": brokers reject it: {found.refusal}" if found.refusal else ""
                reasons.append(
                    f"consumer {name} has neither pulled nor ended a listener call for {silent + ago:.0f} s{why}"
                )
        return {
            "alive": not reasons,
            "reasons": reasons,
            "loop_late_s": round(late, 3),
            "consumers": {name: _shown(found, ago) for name, found in seen.items()},
        }

    async def alive(self, request: Request) -> PageAnswer:
        """Serve /healthz: 200, or 503 if the process must be restarted."""
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
        "refusal": found.refusal or None,
    }


def _page(status: int, content: dict[str, Any]) -> PageAnswer:
    return PageAnswer(status, json.dumps(content).encode() + b"\n", "application/json")
