"""The healthy core of a set: while a minority of its members is broken, the others must accept messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from proof.ledger import Finding
from proof.simulation.cluster import Cluster

BOUND_S: Final = 30.0
"""Time after a fault within which the set must accept messages again."""
PROBE_S: Final = 0.5
PAUSE_S: Final = 4.0
"""Longest time between two accepted messages that is not time without service: a master that is paused for less than
the controller's heartbeat timeout, 3 s here, remains the master.
"""
SHARE: Final = 0.15
"""Part of the time after the bound that may pass without service, in addition to `SLACK_S`."""
SLACK_S: Final = 5.0
SHORTEST_S: Final = 5.0
"""Shortest time after the bound that is judged."""
ACCEPTS: Final = "a set accepts messages while a minority is broken"


class HealthyCore:
    """Sends messages to one set while a member is broken. `probe` returns whether one was accepted."""

    def __init__(self, cluster: Cluster, probe: Callable[[], Awaitable[bool]], findings: list[Finding]) -> None:
        self._cluster = cluster
        self._probe = probe
        self._findings = findings
        self._what = ""
        self._from = self._last = self._idle = 0.0
        self.judged = 0
        """Faults of members during which the others were judged."""

    def broken(self, what: str) -> None:
        """Called when a member breaks."""
        self._what = what
        self._from, self._last, self._idle = self._cluster.now + BOUND_S, self._cluster.now, 0.0

    def healed(self) -> None:
        """Judge the time since the bound: the member is whole again, or something else is about to break."""
        what, self._what = self._what, ""
        total = self._cluster.now - self._from
        if not what or total < SHORTEST_S:
            return
        self._accepted()
        self.judged += 1
        if self._idle > total * SHARE + SLACK_S:
            idle = f"in {self._idle:.1f} of {total:.1f} s no message was accepted"
            text = f"{what}: from {BOUND_S:g} s after that on, {idle}"
            self._findings.append(Finding(ACCEPTS, text))

    def _accepted(self) -> None:
        begin, now = max(self._last, self._from), self._cluster.now
        if now - self._last > PAUSE_S and now > begin:
            self._idle += now - begin
        self._last = now

    async def watch(self) -> None:
        """Send a message every half second while a member is broken. Never returns."""
        while True:
            if self._what and await self._probe() and self._what:
                self._accepted()
            await self._cluster.sleep(PROBE_S)
