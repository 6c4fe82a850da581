"""Consumer: the life cycle of a group's consumer, from `start` to `close`, whether or not it holds queues."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from bolide.client.consuming.membership import GroupMembership
from bolide.client.instance.unclosed import Closeable
from bolide.client.messages.checked import checked_methods
from bolide.client.messages.errors import ClientStateError
from bolide.client.tracing.interceptor import Interceptor, close_all, start_all
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response


@checked_methods
class Consumer(Closeable):
    """Joins a group once and leaves it once. A subclass receives the messages."""

    def __init__(
        self, group: str, member: GroupMembership, interceptors: tuple[Interceptor, ...], *callers: object
    ) -> None:
        """`callers` run user code that `close` waits for."""
        self._group = group
        self._member: GroupMembership = member
        self._interceptors = interceptors
        self._callers = (interceptors, *callers)
        self._started = False
        self._started_ms = 0
        self._closed = False
        self._lock = asyncio.Lock()

    @abstractmethod
    async def _join(self) -> None:
        """Join the group."""

    @abstractmethod
    async def _stop(self, complete: bool) -> None:
        """Stop receiving. `complete` is False if the user's code ended with an error, so its last messages may be
        unconsumed."""

    @abstractmethod
    async def _leave(self) -> None:
        """Leave the group."""

    async def start(self) -> Self:
        """Join the group; return when the first queues are assigned. A second call does nothing.

        Raises `ClientStateError` if the consumer is closed, or the group is already in use in this client, and
        `ResponseError` if brokers reject an SQL expression or the group.
        """
        self._check_open(f"consumer {self._group}")
        if self._is_starting(self._lock, *self._callers):
            return self
        async with self._lock:
            self._check_open(f"consumer {self._group}")
            if not self._started:
                self._started_ms = self._member.options.world.wall_ms()
                try:
                    await start_all(self._interceptors)
                    self._started = True  # before the first queues, because a queue listener may use the consumer
                    await self._join()
                except BaseException:
                    self._started = False
                    await asyncio.shield(close_all(self._interceptors))
                    raise
                self._opened(f"{type(self).__name__} of group {self._group}")
        return self

    async def close(self) -> None:
        """Wait for the running listeners, store the offsets, and leave the group. A second call does nothing.

        A pull consumer with `auto_commit` stores the offsets of all returned messages. If called in a listener, an
        interceptor or the offset store of this consumer, it returns immediately, and the consumer closes in the
        background once that call has returned.
        """
        await self._close(complete=True)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(complete=kind is None)

    async def _close(self, *, complete: bool) -> None:
        if self._member.in_child:
            return
        self._closed = True
        self._closing()
        await self._close_outside(lambda: self._end(complete), *self._callers)

    async def _end(self, complete: bool) -> None:
        async with self._lock:
            if self._started:
                self._started = False
                await asyncio.shield(self._finish(complete))

    async def _finish(self, complete: bool) -> None:
        await self._stop(complete)
        await close_all(self._interceptors)
        await self._leave()

    @property
    def group(self) -> str:
        """The group given to the constructor."""
        return self._group

    @property
    def client_id(self) -> str:
        """The id of this client at the brokers."""
        return self._member.options.client_id

    def _serve(self, command: Command) -> Command | Coroutine[Any, Any, Command | None] | None:
        """Return the response to a broker's request, or None for no response. By default, no request is supported."""
        return make_response(
            command, codes.REQUEST_CODE_NOT_SUPPORTED, f"a {type(self).__name__} does not serve {command.code}"
        )

    def _state(self) -> str:
        return f"group {self._group!r}"

    def _is_running(self) -> bool:
        return self._started

    def _check_running(self) -> None:
        if not self._is_running():
            raise ClientStateError(f"consumer {self._group} is not running: use `async with` or await start()")
        self._member.instance.check_process()
        self._member.instance.check_loop()
