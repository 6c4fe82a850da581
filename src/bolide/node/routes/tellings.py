"""What a name server or controller tells brokers: oneway requests, over connections of its own."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from bolide.access.users import Credentials, signed
from bolide.errors import BolideError
from bolide.remoting.command import make_request
from bolide.transport.client import ClientConnection
from bolide.world.contract import World
from bolide.world.tasks import end_tasks

MOST: Final = 64
"""Tellings under way at once: a broker that does not accept connections holds one for the time below."""
CONNECT_S: Final = 3.0


class Telling(Protocol):
    """One request to one broker."""

    @property
    def addr(self) -> str:
        """Where the broker is."""

    @property
    def code(self) -> int:
        """The request code."""

    @property
    def ext(self) -> dict[str, str]:
        """The fields of the header."""

    @property
    def body(self) -> bytes:
        """The body."""


class Tellings:
    """Sends each telling by a task, which ends with the daemon at the latest. `log`: the daemon's. `credentials`
    sign each one, for brokers that authenticate their clients."""

    def __init__(self, world: World, log: logging.Logger, credentials: Credentials | None) -> None:
        self._world = world
        self._log = log
        self._credentials = credentials
        self._tasks: dict[asyncio.Task[None], None] = {}

    def send(self, telling: Telling) -> None:
        """Begin to tell a broker; with too many under way it is left out, and the broker learns when it asks."""
        if len(self._tasks) >= MOST:
            self._log.warning("skipping the notification of %s: %d notifications are in progress", telling.addr, MOST)
            return
        task = asyncio.create_task(self._send(telling), name=f"tell {telling.addr}")
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _send(self, telling: Telling) -> None:
        try:
            connection = await ClientConnection.connect(telling.addr, CONNECT_S, world=self._world)
        except BolideError as error:
            self._log.warning("cannot notify %s of a change in its set: %s", telling.addr, error)
            return
        try:
            request = make_request(telling.code, 0, dict(telling.ext), telling.body, oneway=True)
            connection.oneway(signed(request, self._credentials))
        except BolideError as error:
            self._log.warning("cannot notify %s of a change in its set: %s", telling.addr, error)
        finally:
            connection.close()
            await connection.wait_closed()

    async def stop(self) -> None:
        """Give up what is under way."""
        await end_tasks(self._tasks)
