"""Writes small state files off the loop. Retries until the newest content of each is on disk.

The name server stores its key-value configuration in this way. Name server and controller store their settings.
"""

from __future__ import annotations

import asyncio
import logging
import posixpath
from collections.abc import Callable
from typing import Final

from bolide.errors import BolideError
from bolide.node.machine.node_world import NodeWorld

FIRST_PAUSE_S: Final = 0.5
LAST_PAUSE_S: Final = 10.0
"""Pause before the first retry of a failed write, and the maximum pause. The pause doubles with each retry."""


class KeptFiles:
    """State files of one server, by path. Failures and recoveries are logged."""

    def __init__(self, world: NodeWorld, log: logging.Logger) -> None:
        self._files = world.files
        self._in_thread = world.in_thread
        self._log = log
        self._wanted: dict[str, tuple[bytes, list[Callable[[str], None]]]] = {}
        self._under_way: dict[str, bytes] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._stopping = False

    def latest(self, path: str) -> bytes | None:
        """Return the newest content of a file, which may not be on disk yet, or None if there is none."""
        wanted = self._wanted.get(path)
        return wanted[0] if wanted is not None else self._under_way.get(path) or self._files.read_file(path)

    def write(self, path: str, data: bytes, then: Callable[[str], None]) -> None:
        """Write this content, then call `then(error)` on the loop. `error` is "" on success.

        Calls during a write share the next write.
        """
        waiting = self._wanted[path][1] if path in self._wanted else []
        waiting.append(then)
        self._wanted[path] = (data, waiting)
        wake = self._wakes.setdefault(path, asyncio.Event())
        wake.set()
        if path not in self._tasks:
            self._tasks[path] = asyncio.create_task(self._keep(path, wake))

    async def stop(self) -> None:
        """Stop after a last attempt to write pending content."""
        self._stopping = True
        for wake in self._wakes.values():
            wake.set()
        await asyncio.gather(*self._tasks.values())

    async def _keep(self, path: str, wake: asyncio.Event) -> None:
        pause = FIRST_PAUSE_S
        said = ""
        while path in self._wanted:
            wake.clear()
            last = self._stopping
            data, waiting = self._wanted.pop(path)
            self._under_way[path] = data
            error = await self._in_thread(self._write, path, data)
            self._under_way.pop(path)
            if error:
                self._wanted.setdefault(path, (data, []))
            if error and error != said:
                self._log.error("%s; retrying until it succeeds", error)
            elif said and not error:
                self._log.info("%s was written: the earlier error is resolved", path)
            said = error
            for then in waiting:
                then(error)
            if not error:
                pause = FIRST_PAUSE_S
                continue
            if last:
                break
            await woken(wake, pause)
            pause = min(pause * 2, LAST_PAUSE_S)
        self._tasks.pop(path)

    def _write(self, path: str, data: bytes) -> str:
        """Write a file in a thread. Return the reason of a failure, or ""."""
        folder = posixpath.dirname(path)
        try:
            above = posixpath.dirname(folder)
            fresh = posixpath.basename(folder) not in self._files.list_dir(above)
            self._files.make_dir(folder)
            if fresh:  # otherwise a power failure could remove the new folder with the file
                self._files.sync_dir(above)
            self._files.write_file(path, data)
        except (BolideError, OSError) as error:
            return f"{path} could not be written: {error}"
        return ""


async def woken(wake: asyncio.Event, seconds: float) -> None:
    """Wait for the event, for at most `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        return
