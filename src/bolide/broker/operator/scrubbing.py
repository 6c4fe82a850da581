"""Runs the scrub of the store in the pool, logs its findings, and returns its progress for runtime info (28).

Operators pause and continue it with the live setting scrubEnable, like any setting of a broker (25).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from bolide.broker.core.effects import Effects
from bolide.broker.core.service import Service
from bolide.broker.options.composed import BrokerOptions
from bolide.store.disk.jobs import Job
from bolide.store.message_store import MessageStore
from bolide.store.scrub.scrub import Scrub, ScrubStatus

LINES_PER_MINUTE: Final = 20
"""Maximum number of findings logged per minute. The others are counted, and are in the status."""
_MINUTE: Final = 60_000
SHOWN: Final = 20
"""Maximum number of findings in runtime info."""


def _retention_ms(options: BrokerOptions) -> int:
    return options.store.file_reserved_time * 3_600_000


class ScrubService(Service):
    """The scrub of one broker's store. `monotonic` returns seconds, for work in the pool."""

    def __init__(
        self,
        options: BrokerOptions,
        store: MessageStore,
        effects: Effects,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
        log: logging.Logger,
    ) -> None:
        self._scrub = Scrub(store, options.scrub, _retention_ms(options), monotonic, clock())
        self._effects = effects
        self._clock = clock
        self._log = log
        self._minute = 0
        self._lines = 0
        self._unlogged = 0

    def configure(self, options: BrokerOptions) -> None:
        """Apply changed live settings."""
        self._scrub.configure(options.scrub, _retention_ms(options), self._clock())

    def due(self, now: int) -> int | None:
        """Return when the scrub may continue, or None while a job runs or it is paused."""
        return self._scrub.due(now)

    def tick(self, now: int, budget: int) -> None:
        """Pass the next job to the pool."""
        job = self._scrub.job(now)
        if job is not None:
            self._effects.run(job, self._done)

    def _done(self, job: Job, error: str) -> None:
        now = self._clock()
        self._scrub.done(job, error, now)
        for line in self._scrub.take_news():
            self._tell(line, now)
        self._effects.wake(self)

    def _tell(self, line: str, now: int) -> None:
        if now - self._minute >= _MINUTE:
            if self._unlogged:
                self._log.error("scrub: %d more findings: bolide store scrub status lists them", self._unlogged)
            self._minute, self._lines, self._unlogged = now, 0, 0
        self._lines += 1
        if self._lines <= LINES_PER_MINUTE:
            self._log.error("scrub: %s", line)
        else:
            self._unlogged += 1

    def status(self) -> ScrubStatus:
        """Return progress and findings."""
        return self._scrub.status()

    def runtime(self) -> dict[str, str]:
        """Return progress and the first findings as text, for runtime info."""
        status = self._scrub.status()
        told = {
            "scrubState": status.phase.value,
            "scrubPasses": str(status.passes),
            "scrubPassBeginTimestamp": str(status.began),
            "scrubLastPassEndTimestamp": str(status.finished),
            "scrubCheckedBytes": str(status.done),
            "scrubTotalBytes": str(status.total),
            "scrubFindings": str(len(status.findings) + status.unlisted),
        }
        for number, found in enumerate(status.findings[:SHOWN], 1):
            told[f"scrubFinding_{number}"] = str(found)
        return told
