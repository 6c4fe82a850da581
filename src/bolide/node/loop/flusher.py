"""The thread that syncs the log, so that the event loop never waits for the disk.

Only one sync runs at a time. Writes made during a sync share the next one (group commit).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from bolide.broker.core.stats import Durations
from bolide.world.contract import Worker

THREAD_NAME: Final = "bolide-flush"


def timed(sync: Callable[[int], None], times: Durations, clock: Callable[[], float]) -> Callable[[int], None]:
    """Wrap `sync` to record its duration in microseconds if it succeeds. `clock` returns seconds."""

    def run(target: int) -> None:
        began = clock()
        sync(target)
        times.add(int((clock() - began) * 1_000_000))

    return run


class FlushThread:
    """Runs `sync(target)` in `worker` for each target, and reports the result on the loop through `soon`."""

    def __init__(
        self,
        worker: Worker,
        sync: Callable[[int], None],
        soon: Callable[..., object],
        done: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._worker = worker
        self._sync = sync
        self._soon = soon
        self._done = done
        self._told_failure = failed
        self._broken = False

    def start(self, target: int) -> None:
        """Sync the log up to this physical offset."""
        self._worker.give(partial(self._sync_to, target))

    def stop(self) -> None:
        """Finish the queued syncs and end the thread. Blocks."""
        self._worker.stop()

    def _sync_to(self, target: int) -> None:
        if self._broken:
            return
        try:
            self._sync(target)
        except BaseException as error:  # a failed sync is never retried, whatever the reason
            self._broken = True
            self._report(self._told_failure, error)
            return
        self._report(self._done, target)

    def _report(self, told: Callable[..., None], what: object) -> None:
        try:
            self._soon(told, what)
        except RuntimeError:
            return  # the loop is closed, so no caller is waiting
