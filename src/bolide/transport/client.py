"""The client side of a remoting connection with asyncio: concurrent requests, responses matched by opaque.

`bolide.remoting.connection` contains the protocol's rules; this module transfers bytes and stores the pending requests
(RocketMQ's NettyRemotingAbstract: responses arrive in any order, and the peer may send requests too). All frames queued
in one iteration of the loop are written together.
"""

from __future__ import annotations

import asyncio
import logging
import ssl as ssl_module
from collections.abc import Callable
from typing import Any, Final, final

from bolide.errors import BolideError, ConnectionLost, RequestTimeout, caused
from bolide.remoting.command import Command
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import FrameError
from bolide.transport.address import split_address
from bolide.transport.reasons import cannot_connect, is_tls_alert, lost, no_connection_in_time, reason_of
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

log = logging.getLogger("bolide.transport")

Done = Callable[[Command | None, BolideError | None], None]
"""Called once with the response, or with the error."""
OnRequest = Callable[["ClientConnection", Command], None]
"""Called on the loop for each request of the peer; `ClientConnection.reply` sends responses."""

CONNECT_TIMEOUT: Final = 3.0
MAX_FRAME: Final = 16 * 1024 * 1024
MAX_QUEUED: Final = 64 * 1024 * 1024
SILENT_S: Final = 3.0
"""Seconds without any received byte after which a connection with timed-out requests is considered broken: a router
dropped it, or the peer's machine lost power. The kernel would keep sending for a quarter of an hour. RocketMQ closes it
at the first request that times out (clientCloseSocketIfTimeout)."""
LAST_LOOK_S: Final = 0.1
"""Delay in seconds before a silent connection is closed. If this process was suspended, it then reads the bytes that
arrived in the meantime."""


@final
class AwaitedResponse:
    """A request whose response has not arrived. Its outcome is passed to the callback `done`, or to `future` if there
    is no callback. Times are loop times."""

    __slots__ = ("began", "deadline", "done", "future")

    def __init__(self, began: float, deadline: float, done: Done | None, future: Any) -> None:
        self.began = began
        self.deadline = deadline
        self.done = done
        self.future = future

    def end(self, answer: Command | None, error: BolideError | None) -> None:
        """Report the response or the error."""
        if self.done is not None:
            self.done(answer, error)
        elif not self.future.done():
            if answer is not None:
                self.future.set_result(answer)
            else:
                self.future.set_exception(error)


@final
class ClientConnection:
    """One TCP connection to a name server or broker. Created by `connect`; use it on the same loop.

    It has the methods of asyncio.Protocol, but is not a subclass, so that it can be compiled.
    """

    def __init__(self, address: str, on_request: OnRequest | None = None, max_frame: int = MAX_FRAME) -> None:
        self.address = address
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._core = FramedConnection(max_frame, MAX_QUEUED)
        self._on_request = on_request
        self._transport: Any = None
        self._waiting: dict[int, AwaitedResponse] = {}
        """Pending requests, by opaque."""
        self._heard_at = self._loop.time()
        self._answered = False
        self._unheard_from: float | None = None
        """Start time of the first request that timed out since the last received byte."""
        self._opaque = 0
        self._flush_due = False
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_at = 0.0
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost = asyncio.Event()

    @staticmethod
    async def connect(
        address: str,
        timeout: float = CONNECT_TIMEOUT,
        *,
        on_request: OnRequest | None = None,
        ssl: ssl_module.SSLContext | None = None,
        max_frame: int = MAX_FRAME,
        world: World = THE_WORLD,
    ) -> ClientConnection:
        """Connect to ``host:port``. Raises `ConnectionLost` if that fails or takes longer than `timeout` seconds."""
        host, port = split_address(address)
        try:
            async with asyncio.timeout(timeout):
                return await world.connect(lambda: ClientConnection(address, on_request, max_frame), host, port, ssl)
        except TimeoutError:
            raise caused(no_connection_in_time(address, timeout, ssl is not None), None) from None
        except OSError as error:
            raise caused(cannot_connect(address, error, ssl is not None), error) from error

    # -- requests

    def next_opaque(self) -> int:
        """Return a number for the next request, which is unique on this connection while the request is in flight."""
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        return opaque

    @property
    def in_flight(self) -> int:
        """Number of requests without a response so far."""
        return len(self._waiting)

    def start_frame(self, opaque: int, frame: bytes, timeout: float, done: Done) -> None:
        """Queue an encoded request frame with this `opaque`; `done` is called once, within `timeout` seconds."""
        self.queue_frame(opaque, frame, timeout, done)
        self.flush_soon()

    def queue_frame(self, opaque: int, frame: bytes, timeout: float, done: Done) -> None:
        """Like `start_frame`, but write the frame only with the next `flush` or `flush_soon`."""
        if self.closed:
            self._loop.call_soon(done, None, ConnectionLost(f"the connection to {self.address} is closed"))
            return
        self._await(opaque, timeout, done, None)
        self._core.send_frame(frame)

    def start(self, command: Command, timeout: float) -> asyncio.Future[Command]:
        """Queue a request and return the future of its response. Overwrites the command's opaque."""
        future: asyncio.Future[Command] = self._loop.create_future()
        if self.closed:
            future.set_exception(ConnectionLost(f"the connection to {self.address} is closed"))
            return future
        command.opaque = self.next_opaque()
        self._core.send(command)
        self._await(command.opaque, timeout, None, future)
        self.flush_soon()
        return future

    async def request(self, command: Command, timeout: float) -> Command:
        """Send `command` and return its response. Raises `RequestTimeout` after `timeout` seconds, and `ConnectionLost`
        if the connection is closed."""
        return await self.start(command, timeout)

    def oneway(self, command: Command) -> None:
        """Queue a request without a response. Raises `ConnectionLost` if the connection is closed."""
        if self.closed:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        command.opaque = self.next_opaque()
        self._core.send(command)
        self.flush_soon()

    def oneway_frame(self, frame: bytes) -> None:
        """Queue an encoded frame without a response. Raises `ConnectionLost` if the connection is closed."""
        if self.closed:
            raise ConnectionLost(f"the connection to {self.address} is closed")
        self._core.send_frame(frame)
        self.flush_soon()

    def reply(self, command: Command) -> None:
        """Queue the response to a peer's request; does nothing if the connection is closed."""
        if not self.closed:
            self._core.send(command)
            self.flush_soon()

    async def drain(self) -> None:
        """Wait until the peer has read enough of the written bytes."""
        await self._writable.wait()

    @property
    def writable(self) -> bool:
        """Whether the socket's unsent bytes are at most its high-water mark."""
        return self._writable.is_set()

    def close(self) -> None:
        """Write queued frames, then close; every pending request fails with `ConnectionLost`."""
        if self._transport is not None and not self._transport.is_closing():
            self.flush()
            self._transport.close()
        self._end(ConnectionLost(f"the connection to {self.address} was closed by us"))

    async def wait_closed(self) -> None:
        """Wait until the socket is closed; call `close` first."""
        if self._transport is not None:
            await self._lost.wait()

    # -- asyncio.Protocol

    def connection_made(self, transport: Any) -> None:
        """Called by asyncio once the socket is connected."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by asyncio with bytes from the peer."""
        self._heard_at = self._loop.time()
        if not self._answered and is_tls_alert(data):
            self._abort(self._lost_by("closed"))
            return
        self._answered = True
        try:
            commands = self._core.receive(data)
        except FrameError as error:
            self._take(error.before)
            self._abort(error)
            return
        self._take(commands)

    def _take(self, commands: list[Command]) -> None:
        waiting = self._waiting
        for number, command in enumerate(commands):
            if command.is_response:
                pending = waiting.pop(command.opaque, None)
                if pending is not None:  # ignore a response after its timeout
                    try:
                        pending.end(command, None)
                    except BaseException:  # Ctrl-C in code of the user must not lose the other responses
                        self._take(commands[number + 1 :])
                        raise
            elif self._on_request is not None:
                self._serve(command)

    def _serve(self, command: Command) -> None:
        assert self._on_request is not None
        try:
            self._on_request(self, command)
        except Exception:  # a failed handler must not lose the other responses of this connection
            log.exception("request %d of %s failed in its handler", command.code, self.address)

    def eof_received(self) -> bool:
        """Called by asyncio when the peer has closed its side. `connection_lost` follows."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by asyncio once the socket is closed."""
        reason = f": {reason_of(exc)}" if isinstance(exc, OSError) else f": {exc!r}" if exc is not None else ""
        self._end(self._lost_by(f"lost{reason}"))
        self._lost.set()

    def _lost_by(self, reason: str) -> ConnectionLost:
        encrypted = self._transport is not None and self._transport.get_extra_info("sslcontext") is not None
        return lost(self.address, reason, answered=self._answered, encrypted=encrypted)

    def pause_writing(self) -> None:
        """Called by asyncio when too many bytes are unsent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Called by asyncio when the peer has caught up."""
        self._writable.set()

    # -- inside

    def flush_soon(self) -> None:
        """Write all queued frames when this turn of the loop ends."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Write all queued frames."""
        self._flush_due = False
        if self._transport is None or self._transport.is_closing():
            return
        buffers = self._core.data_to_send()
        if buffers:
            self._transport.write(buffers[0] if len(buffers) == 1 else b"".join(buffers))

    def _await(self, opaque: int, timeout: float, done: Done | None, future: Any) -> None:
        now = self._loop.time()
        deadline = now + timeout
        self._waiting[opaque] = AwaitedResponse(now, deadline, done, future)
        if self._sweep is None:
            self._sweep_at = deadline
            self._sweep = self._loop.call_at(deadline, self._expire)
        elif deadline < self._sweep_at:
            self._sweep.cancel()
            self._sweep_at = deadline
            self._sweep = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        """Fail overdue requests and schedule the next deadline: one timer for all pending requests."""
        self._sweep = None
        # The loop may call a timer a clock tick early; deadlines within that tick are due.
        now = self._loop.time() + 0.001
        late = [opaque for opaque, pending in self._waiting.items() if pending.deadline <= now]
        overdue = [self._waiting.pop(opaque) for opaque in late]
        for pending in overdue:
            self._not_answered(pending.began, now)
        try:
            _end_each(overdue, lambda: RequestTimeout(f"{self.address} did not answer within the time allowed"))
        finally:
            self._schedule_sweep()

    def _schedule_sweep(self) -> None:
        # A separate function, because a callback of `_expire` may send a request, which sets `_sweep`: mypyc assumes
        # that an attribute keeps the None that its function assigned.
        if self._waiting and self._sweep is None:
            self._sweep_at = min([pending.deadline for pending in self._waiting.values()])
            self._sweep = self._loop.call_at(self._sweep_at, self._expire)

    def _not_answered(self, asked_at: float, now: float) -> None:
        """Called when a request has timed out: close the connection if no byte has arrived for long enough."""
        if self._heard_at > asked_at:
            return  # the peer is slow with this request, but still connected
        if self._unheard_from is None or self._unheard_from < self._heard_at:
            self._unheard_from = asked_at
        if now - self._unheard_from >= SILENT_S:
            self._loop.call_later(LAST_LOOK_S, self._close_silent, self._unheard_from)

    def _close_silent(self, since: float) -> None:
        if not self.closed and self._heard_at <= since:
            seconds = self._loop.time() - since
            self._abort(ConnectionLost(f"nothing came from {self.address} for {seconds:.0f} s"))

    def _abort(self, error: BolideError) -> None:
        log.warning("closing the connection to %s: %s", self.address, error)
        if self._transport is not None:
            self._transport.abort()
        self._end(error)

    def _end(self, error: BolideError) -> None:
        self.closed = True
        self._writable.set()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        waiting, self._waiting = self._waiting, {}
        _end_each(list(waiting.values()), lambda: error)


def _end_each(pending: list[AwaitedResponse], error: Callable[[], BolideError]) -> None:
    """Report an error to all of these requests, also if Ctrl-C interrupts code of the user that one of them calls."""
    for number, each in enumerate(pending):
        try:
            each.end(None, error())
        except BaseException:
            _end_each(pending[number + 1 :], error)
            raise
