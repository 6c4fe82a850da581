"""Serves a port for monitoring from a separate thread and event loop, so that it responds while the node's loop hangs.

Each connection serves one request. A peer has 5 s to send it and 10 s to read the response. At most 128 connections may
be open, and 16 of them may have unread responses. Above a limit, the oldest one that waits for its peer is closed
(`crowd`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Final, Protocol

from bolide.errors import BolideError
from bolide.monitor.crowd import make_room
from bolide.monitor.http import BadRequest, PageAnswer, Request, parse_request, said
from bolide.world.contract import Worker, World

log = logging.getLogger("bolide.monitor")
THREAD_NAME: Final = "bolide-monitor"
MOST_CONNECTIONS: Final = 128
"""Maximum number of connections. It exceeds the number that one turn of the loop accepts, because the next turn reads
the requests of new connections."""
MOST_ANSWERS: Final = 16
"""Maximum number of responses that peers have not read yet."""
REQUEST_S: Final = 5.0
ANSWER_S: Final = 10.0

Page = Callable[[Request], Awaitable[PageAnswer]]
"""Handler of a path. Called on the loop of the monitoring thread. Must not raise for any request."""


class ServedPort(Protocol):
    """A bound port."""

    async def serve(self, accepted: Callable[[], asyncio.Protocol]) -> None:
        """Accept connections on the running loop."""

    def close(self) -> None:
        """Stop accepting connections. A second call does nothing."""


class MonitorServer:
    """Serves pages on a bound port, from `start` to `stop`. `request_s` and `answer_s` are in seconds."""

    def __init__(
        self,
        world: World,
        port: ServedPort,
        pages: Mapping[str, Page],
        request_s: float = REQUEST_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self.request_s = request_s
        self.answer_s = answer_s
        self._world = world
        self._port = port
        self.pages = pages
        self.connections: set[PageConnection] = set()
        self.numbers = count()
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    async def start(self) -> None:
        """Start the thread, and return once it accepts connections. Raises the exception of `port.serve`."""
        here = asyncio.get_running_loop()
        begun: asyncio.Future[Exception | None] = here.create_future()

        def told(error: Exception | None) -> None:
            if not begun.done():
                begun.set_result(error)

        def tell(error: Exception | None) -> None:
            here.call_soon_threadsafe(told, error)

        self._worker = self._world.worker(THREAD_NAME)
        self._worker.give(lambda: self._run(tell))
        error = await begun
        if error is not None:
            raise error

    async def stop(self) -> None:
        """Close the port and all connections, and stop the thread. A second call does nothing."""
        loop, stop = self._loop, self._stop
        if loop is not None and stop is not None:
            loop.call_soon_threadsafe(stop.set)
        self._loop = None
        worker, self._worker = self._worker, None
        if worker is not None:
            await self._world.in_thread(worker.stop)
        self._port.close()

    # ---- on the thread

    def _run(self, tell: Callable[[Exception | None], None]) -> None:
        try:
            asyncio.run(self._serve(tell))
        except Exception:  # a job of a worker must not raise; the node continues without pages
            log.exception("the monitoring port has stopped")

    async def _serve(self, tell: Callable[[Exception | None], None]) -> None:
        self._stop = stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        try:
            await self._port.serve(lambda: PageConnection(self))
        except (BolideError, OSError) as error:
            tell(error)
            return
        tell(None)
        await stop.wait()
        self._port.close()
        for connection in list(self.connections):
            connection.abort()

    async def answer(self, request: Request) -> PageAnswer:
        """Return the response of a page, with status 404 for an unknown path and 500 if the page raises."""
        page = self.pages.get(request.path)
        if page is None:
            return said(404, f"not found: use one of {', '.join(sorted(self.pages))}")
        try:
            return await page(request)
        except Exception:  # a failing metric must not end the thread
            log.exception("the page %s failed", request.path)
            return said(500, "the page failed: see the log of this process")


class PageConnection(asyncio.Protocol):
    """A connection. Reads one request, writes the response and closes."""

    def __init__(self, server: MonitorServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[None] | None = None
        self.number = next(server.numbers)
        """Order in which connections are closed, smallest first. A connection gets a new number when its response is
        written."""
        self._aborted = False
        self.answered = False
        """Whether the response is written. The connection remains open until the peer has read it."""

    @property
    def waits(self) -> bool:
        """Whether the connection waits for more of the request, or for its peer to read the response."""
        return self._answering is None or self.answered

    @property
    def closing(self) -> bool:
        """Whether the connection was aborted. False while the peer has not read a written response."""
        return self._aborted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timeout. If there are too many connections, close one: this one if no other waits for its peer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(self)
        make_room(self._server.connections, MOST_CONNECTIONS)
        self._limit(self._server.request_s)

    def data_received(self, data: bytes) -> None:
        """Parse the request. Ignores all data after its head."""
        if self._answering is not None or self._transport is None or self._transport.is_closing():
            return
        self._data += data
        try:
            request = parse_request(self._data)
        except BadRequest as refused:
            self._end(refused.answer.encode())
            return
        if request is not None:
            self._transport.pause_reading()
            self._limit(self._server.answer_s)
            self._answering = asyncio.get_running_loop().create_task(self._answer(request))

    async def _answer(self, request: Request) -> None:
        answer = await self._server.answer(request)
        self._end(answer.encode(without_body=request.method == "HEAD"))

    def _end(self, data: bytes) -> None:
        if self._transport is not None:
            self._limit(self._server.answer_s)
            self.answered = True
            self.number = next(self._server.numbers)  # now the newest connection with a written response
            make_room((each for each in self._server.connections if each.answered), MOST_ANSWERS)
            self._transport.write(data)
            self._transport.close()

    def _limit(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    def abort(self) -> None:
        """Close the connection immediately and discard unwritten data."""
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the timeout and the page."""
        self._transport = None
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._answering is not None:
            self._answering.cancel()
