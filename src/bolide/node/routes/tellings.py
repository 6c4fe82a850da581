"""Sends oneway notifications of a name server or controller to brokers, over dedicated connections."""

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
"""Maximum notifications in progress. A broker that accepts no connections occupies one for CONNECT_S."""
CONNECT_S: Final = 3.0


class Telling(Protocol):
    """One notification to one broker."""

    @property
    def addr(self) -> str:
        """Address of the broker."""

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
    """Sends each notification in a task, which `stop` cancels. `credentials` sign each request, for brokers that
    authenticate their clients."""

    def __init__(self, world: World, log: logging.Logger, credentials: Credentials | None) -> None:
        self._world = world
        self._log = log
        self._credentials = credentials
        self._tasks: dict[asyncio.Task[None], None] = {}

    def send(self, telling: Telling) -> None:
        """Start to notify a broker. If too many notifications are in progress, it is skipped; the broker then receives
        the change with its next query."""
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
        """Cancel notifications in progress."""
        await end_tasks(self._tasks)
