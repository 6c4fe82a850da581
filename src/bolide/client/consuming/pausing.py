"""Paused queues of a consumer: all of them, or single ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bolide.client.messages.arguments import check_queues
from bolide.client.messages.queue import MessageQueue


class PausedQueues:
    """A queue is read unless the whole consumer or the queue itself is paused."""

    def __init__(self) -> None:
        self._all = False
        self._queues: set[MessageQueue] = set()
        self._resumed = asyncio.Event()

    def __contains__(self, queue: MessageQueue) -> bool:
        return self._all or queue in self._queues

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Pause these queues, or the whole consumer with the queues it will get."""
        if queues is None:
            self._all = True
        else:
            self._queues.update(check_queues("queues", queues))

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Resume these queues, or all. A paused consumer does not read queues that are resumed one by one."""
        if queues is None:
            self._all = False
            self._queues.clear()
        else:
            self._queues.difference_update(check_queues("queues", queues))
        self._resumed.set()

    async def wait(self, queue: MessageQueue) -> None:
        """Return once the queue is not paused."""
        while queue in self:
            self._resumed.clear()
            await self._resumed.wait()
