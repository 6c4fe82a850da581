"""Interceptors: called around each send and each listener call (RocketMQ's SendMessageHook, ConsumeMessageHook).

Unlike an `RpcHook` they see messages instead of requests: a send with several tries is one call.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from bolide.client.messages.codec import Codec
from bolide.client.messages.listener import ListenerCall, failed_of
from bolide.client.messages.message import Message
from bolide.client.messages.received import ReceivedMessage
from bolide.client.messages.send_result import SendResult
from bolide.client.messages.transaction import TransactionState
from bolide.client.messages.user_code import call_user_code, enter, leave, raise_interruption
from bolide.world.clocks import now_ms
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

log = logging.getLogger("bolide.client")


@dataclass(slots=True)
class SendCall:
    """One send. `began` is ms since 1970. `result` or `error` is set before `after_send`. `state` is free for
    interceptors. `broker_address`, `body_length` (bytes as sent) and `sys_flag` describe the last try."""

    group: str
    message: Message
    began: int = field(default_factory=now_ms)
    oneway: bool = False
    message_id: str = ""
    broker_address: str = ""
    body_length: int = 0
    sys_flag: int = 0
    result: SendResult | None = None
    error: BaseException | None = None
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class ConsumeCall:
    """One call of a listener. `success` is False if a message must be redelivered. `error` is the listener's exception.
    `polled` is True if a poll returns these messages and there is no listener."""

    group: str
    messages: Sequence[ReceivedMessage]
    began: int = field(default_factory=now_ms)
    success: bool = True
    error: BaseException | None = None
    polled: bool = False
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class EndTransactionCall:
    """The end of a transaction, as sent to a broker. `from_check` is True if the broker requested it.
    `began` is ms since 1970."""

    group: str
    topic: str
    tags: str
    keys: str
    message_id: str
    transaction_id: str
    state: TransactionState
    broker_address: str
    from_check: bool
    region_id: str
    began: int = field(default_factory=now_ms)


class ConsumerCache(Protocol):
    """Messages that a push consumer has pulled but not yet consumed, by topic. Thread-safe."""

    def __call__(self) -> Mapping[str, tuple[int, int]]:
        """Return the number of messages and the size of their bodies in bytes, by topic."""

    def paused(self) -> Mapping[str, int]:
        """Return the number of queues of each topic that flow control pauses now."""


class Interceptor:
    """Base class of interceptors: override the methods that you need.

    Interceptors are called in the given order, their `after` methods in reverse order. An ``after`` method is called if
    the same interceptor's ``before`` returned, even if another interceptor rejected the send. Methods for sends run on
    the event loop, methods for a synchronous listener in its thread. Do not block for long.
    """

    async def start(self) -> None:
        """Called when the producer or consumer starts."""

    async def close(self) -> None:
        """Called when the producer or consumer closes, after all other calls."""

    def joined(self, group: str, cached: ConsumerCache) -> None:
        """Called when a push consumer has joined its group. `cached()` returns the number and bytes of its pulled but
        unconsumed messages by topic. `cached.paused()` returns the number of queues that are not pulled because a limit
        of the cache is reached. Both are thread-safe. Exceptions are logged."""

    def left(self, group: str, cached: ConsumerCache) -> None:
        """Called when the push consumer with this `cached` leaves its group. Exceptions are logged."""

    def before_send(self, call: SendCall) -> None:
        """Called before a message is checked and sent: may replace `call.message`, or raise to reject the send."""

    def after_send(self, call: SendCall) -> None:
        """Called with the outcome of a send. Exceptions are logged."""

    def after_end_transaction(self, call: EndTransactionCall) -> None:
        """Called when the end of a transaction is sent to its broker. Exceptions are logged."""

    def before_consume(self, call: ConsumeCall) -> None:
        """Called before a listener; an exception fails its messages, like an exception of the listener."""

    def after_consume(self, call: ConsumeCall) -> None:
        """Called when the listener has finished. Exceptions are logged."""


async def start_all(interceptors: Sequence[Interceptor]) -> None:
    """Start the interceptors in order."""
    token = enter(interceptors)
    try:
        for interceptor in interceptors:
            await interceptor.start()
    finally:
        leave(token)


async def close_all(interceptors: Sequence[Interceptor]) -> None:
    """Close the interceptors in order. A failure does not prevent the others from being closed."""
    token = enter(interceptors)
    try:
        for interceptor in interceptors:
            try:
                await interceptor.close()
            except BaseException as failure:
                raise_interruption(failure)
                log.error("closing %r failed", interceptor, exc_info=failure)
    finally:
        leave(token)


def tell_joined(interceptors: Sequence[Interceptor], group: str, cached: ConsumerCache) -> None:
    """Notify the interceptors that a push consumer has joined its group."""
    _tell(interceptors, group, lambda each: each.joined(group, cached))


def tell_left(interceptors: Sequence[Interceptor], group: str, cached: ConsumerCache) -> None:
    """Notify the interceptors that a push consumer leaves its group."""
    _tell(interceptors, group, lambda each: each.left(group, cached))


def _tell(interceptors: Sequence[Interceptor], group: str, call: Callable[[Interceptor], None]) -> None:
    for interceptor in interceptors:
        try:
            call(interceptor)
        except BaseException as failure:
            raise_interruption(failure)
            log.error("notifying %r of group %s failed", interceptor, group, exc_info=failure)


def begin_send(
    group: str, message: Message, interceptors: Sequence[Interceptor], oneway: bool = False, world: World = THE_WORLD
) -> SendCall:
    """Call the interceptors before a send; the message to send is the call's `message`. Raises their exceptions."""
    call = SendCall(group, message, world.wall_ms(), oneway)
    for count, interceptor in enumerate(interceptors):
        try:
            call_user_code(interceptor.before_send, call)
        except BaseException as error:
            refuse_sends([call], error, interceptors[:count])
            raise
    return call


def refuse_sends(calls: Sequence[SendCall], error: BaseException, interceptors: Sequence[Interceptor]) -> None:
    """Report sends that failed before a request: the message, or another message of its batch, is invalid."""
    for call in calls:
        call.error = error
        after_send(call, interceptors)


def after_send(call: SendCall, interceptors: Sequence[Interceptor]) -> None:
    """Call the interceptors with the outcome of a send."""
    _after(interceptors, lambda interceptor: interceptor.after_send(call))


def _after(interceptors: Sequence[Interceptor], call: Callable[[Interceptor], None]) -> None:
    """Call the interceptors in reverse order. Exceptions are logged, and the others are still called."""
    for interceptor in reversed(interceptors):
        try:
            call(interceptor)
        except BaseException as failure:
            raise_interruption(failure)
            log.error("%r failed after a call", interceptor, exc_info=failure)


def end_transaction(call: EndTransactionCall, interceptors: Sequence[Interceptor]) -> None:
    """Call the interceptors with the end of a transaction."""
    _after(interceptors, lambda interceptor: interceptor.after_end_transaction(call))


def see_polled(
    group: str, messages: Sequence[ReceivedMessage], interceptors: Sequence[Interceptor], world: World = THE_WORLD
) -> None:
    """Call the interceptors with messages that a poll returns. As in Java, they are treated as consumed immediately."""
    call = ConsumeCall(group, messages, world.wall_ms(), polled=True)
    try:
        begin_consume(call, interceptors)
    except BaseException as failure:
        raise_interruption(failure)
        log.error("before_consume of a poll failed", exc_info=failure)
    else:
        end_consume(call, interceptors)


def begin_consume(call: ConsumeCall, interceptors: Sequence[Interceptor]) -> None:
    """Call the interceptors before a listener. Raises their exceptions."""
    for count, interceptor in enumerate(interceptors):
        try:
            interceptor.before_consume(call)
        except BaseException as error:
            call.error, call.success = error, False
            end_consume(call, interceptors[:count])
            raise


def end_consume(call: ConsumeCall, interceptors: Sequence[Interceptor]) -> None:
    """Call the interceptors with the outcome of a listener call."""
    _after(interceptors, lambda interceptor: interceptor.after_consume(call))


def around(
    listener: Callable[[Any], Any],
    batch: int,
    group: str,
    interceptors: Sequence[Interceptor],
    codec: Codec | None = None,
    world: World = THE_WORLD,
) -> Callable[[Any], Any]:
    """Wrap a listener with the interceptors. The result is async if the listener is. `codec` decodes its messages."""

    def begin(given: Any) -> ConsumeCall:
        call = ConsumeCall(group, given if batch else [given], world.wall_ms())
        for message in call.messages:
            message.codec = codec
        begin_consume(call, interceptors)
        return call

    def end(call: ConsumeCall, outcome: Any, error: BaseException | None) -> None:
        call.error = error
        call.success = error is None and not failed_of(outcome, list(call.messages), batch > 0)
        end_consume(call, interceptors)

    async def ending(call: ConsumeCall, waited: Awaitable[Any]) -> Any:
        try:
            outcome = await waited
        except BaseException as error:
            end(call, None, error)
            raise
        end(call, outcome, None)
        return outcome

    async def around_async(given: Any) -> Any:
        return await ending(begin(given), listener(given))

    def around_plain(given: Any) -> Any:
        call = begin(given)
        try:
            outcome = listener(given)
            if isinstance(outcome, Future):
                outcome = outcome.result()
        except BaseException as error:
            end(call, None, error)
            raise
        if inspect.isawaitable(outcome):
            return ending(call, outcome)
        end(call, outcome, None)
        return outcome

    if not interceptors and codec is None:
        return listener
    return around_async if ListenerCall(listener, batch).is_async else around_plain
