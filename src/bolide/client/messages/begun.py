"""Eager calls of async listeners: the listener runs immediately, up to its first wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType
from typing import Any

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


def begun(listener: Callable[[Any], Any], message: ReceivedMessage) -> Awaitable[Failed] | None:
    """Call an async listener with a message. Return None if it has finished successfully, otherwise an awaitable
    result.

    Never raises the listener's errors; cancellation of the calling task and Ctrl-C propagate.
    """
    try:
        coroutine = listener(message)
    except BaseException as error:  # a StopIteration raised by the listener does not mean that it returned
        return _known(failed_by(error, [message]))
    if not isinstance(coroutine, CoroutineType):
        return _outcome(coroutine, message)
    try:
        yielded = coroutine.send(None)
    except StopIteration as end:
        failed = [] if end.value is None else failed_of(end.value, [message])
    except BaseException as error:
        failed = failed_by(error, [message])
    else:
        return _outcome(Rest(coroutine, yielded), message)
    return _known(failed) if failed else None


async def _outcome(rest: Awaitable[Any], message: ReceivedMessage) -> Failed:
    try:
        return failed_of(await rest, [message])
    except BaseException as error:
        return failed_by(error, [message])


async def _known(failed: Failed) -> Failed:
    return failed
