"""The one thread that waits for the disk: it syncs the log, and nothing else, so that the loop never waits.

One sync is in flight at a time; what is written meanwhile shares the next one (group commit).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Final

STOP: Final = -1
THREAD_NAME: Final = "bolide-flush"


class FlushThread:
    """Runs `sync(target)` for each target given and reports back on the loop through `soon`."""

    def __init__(
        self,
        sync: Callable[[int], None],
        soon: Callable[..., object],
        done: Callable[[int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._sync = sync
        self._soon = soon
        self._done = done
        self._failed = failed
        self._targets: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def start(self, target: int) -> None:
        """Sync the log up to this physical offset."""
        self._targets.put(target)

    def stop(self) -> None:
        """Finish what was given and end the thread."""
        self._targets.put(STOP)
        self._thread.join()

    def _run(self) -> None:
        while (target := self._targets.get()) != STOP:
            try:
                self._sync(target)
            except BaseException as error:  # a sync that failed in any way is never tried again
                self._report(self._failed, error)
                return
            self._report(self._done, target)

    def _report(self, told: Callable[..., None], what: object) -> None:
        try:
            self._soon(told, what)
        except RuntimeError:
            return  # the loop is closed: nobody waits any more
