"""A real disk that can be stalled, to test how a broker and its clients behave."""

from __future__ import annotations

import threading

from bolide.node.loop.flusher import THREAD_NAME
from bolide.store.disk.files import RealFiles


class StallableFiles(RealFiles):
    """Real files. While stalled, syncs of the broker's flush thread wait; other calls continue."""

    def __init__(self) -> None:
        super().__init__()
        self._goes = threading.Event()
        self._goes.set()
        self.waiting = threading.Event()
        """Set when a sync waits."""

    def stall(self) -> None:
        """Block every sync until `go_on`."""
        self.waiting.clear()
        self._goes.clear()

    def go_on(self) -> None:
        """Unblock the waiting syncs and all later ones."""
        self._goes.set()

    def datasync(self, handle: int) -> None:
        """Like `RealFiles.datasync`, but blocked while the disk is stalled."""
        if threading.current_thread().name == THREAD_NAME:
            if not self._goes.is_set():
                self.waiting.set()
            self._goes.wait()
        super().datasync(handle)
