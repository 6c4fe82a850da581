"""Interceptors: called around each send and each call of a listener (RocketMQ's SendMessageHook, ConsumeMessageHook).

Unlike an `RpcHook` they see messages, not requests: a send is one, however many tries it takes.
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
from bolide.client.messages.user_code import enter, leave, raise_interruption
from bolide.world.clocks import now_ms
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

log = logging.getLogger("bolide.client")


@dataclass(slots=True)
class SendCall:
    """One send. `began` is ms since 1970; `result` or `error` is there for `after_send`; `state` is the interceptors'
    own. `broker_address`, `body_length` (bytes as they travelled) and `sys_flag` are those of the last try."""

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
    """One call of a listener. `success` is False if a message has to be redelivered, `error` is what was raised;
    `polled` says that there is no listener: a poll returns these messages."""

    group: str
    messages: Sequence[ReceivedMessage]
    began: int = field(default_factory=now_ms)
    success: bool = True
    error: BaseException | None = None
    polled: bool = False
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class EndTransactionCall:
    """A broker is told how a transaction ended; `from_check` when it had asked. `began` is ms since 1970."""

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
    """The messages that a push consumer has pulled and not consumed, by topic. Thread-safe."""

    def __call__(self) -> Mapping[str, tuple[int, int]]:
        """Return the messages of each topic, and the bytes of their bodies."""

    def paused(self) -> Mapping[str, int]:
        """Return the number of queues of each topic that flow control keeps from being pulled now."""


class Interceptor:
    """Base of interceptors: override what you need. They run in the order given, the `after` ones in the reverse.

    An ``after`` is called whenever its own ``before`` returned, also when another interceptor refused. Sends are seen
    on the event loop; a call of a plain listener in its thread. Nothing here may block for long.
    """

    async def start(self) -> None:
        """The producer or consumer starts."""

    async def close(self) -> None:
        """It is closed; nothing comes any more."""

    def joined(self, group: str, cached: ConsumerCache) -> None:
        """A push consumer is in its group. By topic, `cached()` gives how many messages it has pulled that are not
        done, and the bytes of their bodies, and `cached.paused()` how many queues it does not pull because a limit of
        its cache is reached. Any thread may call both. What this raises is logged."""

    def left(self, group: str, cached: ConsumerCache) -> None:
        """The push consumer that came with this `cached` leaves its group. What this raises is logged."""

    def before_send(self, call: SendCall) -> None:
        """Before a message is checked and sent: may replace `call.message`, or raise to refuse the send."""

    def after_send(self, call: SendCall) -> None:
        """The send has its outcome. What this raises is logged."""

    def after_end_transaction(self, call: EndTransactionCall) -> None:
        """A transaction has its end, which its broker is being told. What this raises is logged."""

    def before_consume(self, call: ConsumeCall) -> None:
        """Before a listener is called; raising fails its messages, as if the listener had."""

    def after_consume(self, call: ConsumeCall) -> None:
        """The listener is through. What this raises is logged."""


async def start_all(interceptors: Sequence[Interceptor]) -> None:
    """Start them in their order."""
    token = enter(interceptors)
    try:
        for interceptor in interceptors:
            await interceptor.start()
    finally:
        leave(token)


async def close_all(interceptors: Sequence[Interceptor]) -> None:
    """Close them in their order; one that fails keeps no other from being closed."""
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
    """A push consumer is in its group."""
    _tell(interceptors, group, lambda each: each.joined(group, cached))


def tell_left(interceptors: Sequence[Interceptor], group: str, cached: ConsumerCache) -> None:
    """A push consumer leaves its group."""
    _tell(interceptors, group, lambda each: each.left(group, cached))


def _tell(interceptors: Sequence[Interceptor], group: str, call: Callable[[Interceptor], None]) -> None:
    for interceptor in interceptors:
        try:
            call(interceptor)
        except BaseException as failure:
            raise_interruption(failure)
            log.error("telling %r of group %s failed", interceptor, group, exc_info=failure)


def begin_send(
    group: str, message: Message, interceptors: Sequence[Interceptor], oneway: bool = False, world: World = THE_WORLD
) -> SendCall:
    """Let the interceptors see a message; what is to be sent is the call's `message`. Raises what they raise."""
    call = SendCall(group, message, world.wall_ms(), oneway)
    for count, interceptor in enumerate(interceptors):
        try:
            interceptor.before_send(call)
        except BaseException as error:
            refuse_sends([call], error, interceptors[:count])
            raise
    return call


def refuse_sends(calls: Sequence[SendCall], error: BaseException, interceptors: Sequence[Interceptor]) -> None:
    """These sends ended before they began: the message, or another of its batch, cannot be sent."""
    for call in calls:
        call.error = error
        after_send(call, interceptors)


def after_send(call: SendCall, interceptors: Sequence[Interceptor]) -> None:
    """Have the interceptors see the outcome of a send."""
    _after(interceptors, lambda interceptor: interceptor.after_send(call))


def _after(interceptors: Sequence[Interceptor], call: Callable[[Interceptor], None]) -> None:
    """Call them in the reverse order; what one raises is logged, and keeps no other from being called."""
    for interceptor in reversed(interceptors):
        try:
            call(interceptor)
        except BaseException as failure:
            raise_interruption(failure)
            log.error("%r failed after a call", interceptor, exc_info=failure)


def end_transaction(call: EndTransactionCall, interceptors: Sequence[Interceptor]) -> None:
    """Have the interceptors see the end of a transaction."""
    _after(interceptors, lambda interceptor: interceptor.after_end_transaction(call))


def see_polled(
    group: str, messages: Sequence[ReceivedMessage], interceptors: Sequence[Interceptor], world: World = THE_WORLD
) -> None:
    """Have the interceptors see messages that a poll returns: as in Java they count as consumed well, at once."""
    call = ConsumeCall(group, messages, world.wall_ms(), polled=True)
    try:
        begin_consume(call, interceptors)
    except BaseException as failure:
        raise_interruption(failure)
        log.error("before_consume of a poll failed", exc_info=failure)
    else:
        end_consume(call, interceptors)


def begin_consume(call: ConsumeCall, interceptors: Sequence[Interceptor]) -> None:
    """Have the interceptors see a call of a listener. Raises what they raise."""
    for count, interceptor in enumerate(interceptors):
        try:
            interceptor.before_consume(call)
        except BaseException as error:
            call.error, call.success = error, False
            end_consume(call, interceptors[:count])
            raise


def end_consume(call: ConsumeCall, interceptors: Sequence[Interceptor]) -> None:
    """Have the interceptors see how a call of a listener went."""
    _after(interceptors, lambda interceptor: interceptor.after_consume(call))


def around(
    listener: Callable[[Any], Any],
    batch: int,
    group: str,
    interceptors: Sequence[Interceptor],
    codec: Codec | None = None,
    world: World = THE_WORLD,
) -> Callable[[Any], Any]:
    """The listener with the interceptors around it, plain or async as it was; its messages are read by `codec`."""

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
