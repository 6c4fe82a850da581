"""A call of an async listener that runs at once, up to the first thing it waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import CoroutineType
from typing import Any

from bolide.client.messages.listener import Failed, failed_by, failed_of
from bolide.client.messages.received import ReceivedMessage


class Rest:
    """What is left of a coroutine that has begun; await it in the task in which it began."""

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
                except BaseException as error:  # a cancellation, most often: it is the coroutine's to handle
                    yielded = self._coroutine.throw(error)
                else:
                    yielded = self._coroutine.send(sent)
            except StopIteration as end:
                return end.value


def begun(listener: Callable[[Any], Any], message: ReceivedMessage) -> Awaitable[Failed] | None:
    """Call an async listener with a message. None when it is through and all is well, else what will say how it ends.

    Never raises what a listener raises; the cancellation of the calling task and Ctrl-C pass through.
    """
    try:
        coroutine = listener(message)
    except BaseException as error:  # a StopIteration of its own says nothing of how it went
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
