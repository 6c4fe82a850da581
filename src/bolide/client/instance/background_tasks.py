"""Background tasks of a client, which end with the client at the latest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from bolide.client.messages.user_code import raise_interruption
from bolide.world.tasks import end_tasks

log = logging.getLogger("bolide.client")

RESTART: Final = 1.0
"""Seconds until a failed task restarts; doubled with each failure."""
RESTART_MOST: Final = 30.0


class KeptTask:
    """A task that restarts until its work returns, or until its owner or its client ends it."""

    def __init__(
        self,
        tasks: BackgroundTasks,
        work: Callable[[], Coroutine[Any, Any, None]],
        name: str,
        ended: Callable[[], None] | None,
    ) -> None:
        self._tasks = tasks
        self._work = work
        self._name = name
        self._on_end = ended
        self._cancelled = False
        self._restarts = False
        self._task = self._start()

    @property
    def ended(self) -> bool:
        """Whether the task has ended and does not restart."""
        return self._task.done() and not self._restarts

    def _start(self) -> asyncio.Task[Any]:
        task = self._tasks.spawn(self._again(), self._name)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """End the task."""
        self._cancelled, self._restarts = True, False
        if not self._task.done():
            self._task.cancel()
        elif self._on_end is not None:  # it would have restarted
            self._on_end()

    async def wait(self) -> None:
        """Wait until the task has ended, or is to restart."""
        await asyncio.gather(self._task, return_exceptions=True)

    async def _again(self) -> None:
        loop = asyncio.get_running_loop()
        pause = RESTART
        while True:
            began = loop.time()
            try:
                await self._work()
                return
            except BaseException as error:
                raise_interruption(error)
                if loop.time() - began > RESTART_MOST:
                    pause = RESTART
                log.error("%s failed with %r, restarting in %g s", self._name, error, pause, exc_info=error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, RESTART_MOST)

    def _done(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled() and not self._cancelled and not self._tasks.closed:
            # asyncio.run cancels all tasks before it closes the loop, which then does not call this.
            self._restarts = True
            task.get_loop().call_later(RESTART, self._restart)
        elif self._on_end is not None:
            self._on_end()

    def _restart(self) -> None:
        """Restart the task, which code outside the client has cancelled."""
        if self._cancelled or self._tasks.closed:
            return
        log.error("%s was cancelled by code outside the client, and restarts", self._name)
        self._restarts = False
        self._task = self._start()


async def end_kept(tasks: Iterable[KeptTask]) -> None:
    """End tasks, and wait until all of them have finished."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    for task in ending:
        await task.wait()


class BackgroundTasks:
    """Tasks of one event loop. The loop has only weak references to its tasks, so this object holds them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: dict[asyncio.Task[Any], None] = {}
        self.closed = False
        """Whether `cancel` was called, so that no task restarts."""

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `work` as a task. Its errors are logged."""
        task = self._loop.create_task(work, name=f"bolide {name}")
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def keep(
        self, work: Callable[[], Coroutine[Any, Any, None]], name: str, ended: Callable[[], None] | None = None
    ) -> KeptTask:
        """Run `work` as a task that restarts after a failure, or if code outside the client cancels it, until `work`
        returns. Each error is logged. Calls `ended` after the last end."""
        return KeptTask(self, work, name, ended)

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
        self.closed = True
        await end_tasks(task for task in self._running if task is not asyncio.current_task())
