"""Background tasks of a client, which end with the client at the latest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from bolide.client.messages.user_code import raise_interruption
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.client")

RESTART: Final = 1.0
"""Seconds until a failed task restarts; doubled with each failure."""
RESTART_MOST: Final = 30.0


class BackgroundTasks:
    """Tasks of one event loop. The loop has only weak references to its tasks, so this object holds them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[asyncio.Task[Any], None] = {}

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as a task. Its errors are logged."""
        task = self._loop.create_task(work, name=f"bolide {name}")
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[Any]:
        """Run `work` as a task that restarts after a failure, until `work` returns. Each error is logged."""
        return self.spawn(self._again(work, name), name)

    async def _again(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        pause = RESTART
        while True:
            began = self._loop.time()
            try:
                await work()
                return
            except BaseException as error:
                raise_interruption(error)
                if self._loop.time() - began > RESTART_MOST:
                    pause = RESTART
                log.error("%s failed with %r, restarting in %g s", name, error, pause, exc_info=error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, RESTART_MOST)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with %s", task.get_name(), error, exc_info=error)

    def hold(self, task: asyncio.Task[Any]) -> None:
        """Hold a task until `release`. The caller has started it and handles its errors."""
        self._running[task] = None

    def release(self, task: asyncio.Task[Any]) -> None:
        """Called when a held task has ended."""
        self._running.pop(task, None)

    async def cancel(self) -> None:
        """Cancel all tasks except the current one, and wait until they have ended."""
        await end_tasks(task for task in self._running if task is not asyncio.current_task())
