"""Eager calls of async listeners: a listener runs immediately, up to its first wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from types import CoroutineType
from typing import Any, Protocol

from bolide.client.messages.listener import Failed, failed_by, failed_of
from bolide.client.messages.received import ReceivedMessage


class Rest:
    """The rest of a coroutine that has started; await it in the task in which it started."""

    __slots__ = ("_coroutine", "_yielded")

    def __init__(self, coroutine: CoroutineType[Any, Any, Any], yielded: Any) -> None:
        self._coroutine = coroutine
        self._yielded = yielded

    def __await__(self) -> Generator[Any, Any, Any]:
        yielded = self._yielded
        while True:
            try:
                try:
                    sent = yield yielded
                except BaseException as error:  # usually a cancellation: the coroutine must handle it
                    yielded = self._coroutine.throw(error)
                else:
                    yielded = self._coroutine.send(sent)
            except StopIteration as end:
                return end.value


class Droppable(Protocol):
    """The queue of some messages, which another consumer may get at any time."""

    @property
    def dropped(self) -> bool:
        """Whether this consumer no longer has the queue."""


def begun(
    listener: Callable[[Any], Any], messages: Iterable[ReceivedMessage], queue: Droppable
) -> tuple[int, Awaitable[Failed] | None]:
    """Call an async listener with each message in turn, until a call waits or fails, or `queue` is dropped.

    Returns the number of calls that finished successfully, and an awaitable result of the next call, or None if no
    call waited or failed. Never raises: the awaitable raises a cancellation of the calling task, and Ctrl-C.
    """
    # One frame for all calls: a frame for each would cost more than a fast listener.
    through = 0
    for message in messages:
        if queue.dropped:
            break
        try:
            coroutine = listener(message)
        except BaseException as error:  # a StopIteration raised by the listener does not mean that it returned
            return through, _failed(error, message)
        if not isinstance(coroutine, CoroutineType):
            return through, _outcome(coroutine, message)
        try:
            yielded = coroutine.send(None)
        except StopIteration as end:
            if end.value is not None and (failed := failed_of(end.value, [message])):
                return through, _known(failed)
            through += 1
        except BaseException as error:
            return through, _failed(error, message)
        else:
            return through, _outcome(Rest(coroutine, yielded), message)
    return through, None


async def _outcome(rest: Awaitable[Any], message: ReceivedMessage) -> Failed:
    try:
        return failed_of(await rest, [message])
    except BaseException as error:
        return failed_by(error, [message])


async def _known(failed: Failed) -> Failed:
    return failed


async def _failed(error: BaseException, message: ReceivedMessage) -> Failed:
    return failed_by(error, [message])
