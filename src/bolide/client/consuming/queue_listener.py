"""Calls of a user's `QueueListener` when queues are assigned and revoked (RocketMQ's MessageQueueListener)."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextvars import copy_context
from typing import Any

from bolide.client.messages.arguments import check_method
from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.queue import MessageQueue
from bolide.client.messages.user_code import call_user_code, enter, is_within, leave, raise_interruption
from bolide.layout.names import RETRY_PREFIX
from bolide.world.contract import World

log = logging.getLogger("bolide.client")


class QueueListener:
    """Base class of listeners for the queues of a consumer: override the methods that you need.

    A method may be async; otherwise it runs in a thread. Each rebalance may call it several times, but never with retry
    queues. An exception is logged, and the rebalance continues. In a call, `start`, `close` and `unsubscribe` of the
    consumer return immediately; the last two take effect afterwards. `assign`, and `seek` of a push consumer, raise
    `ClientStateError`, because they would wait for the rebalance, which waits for the call.
    """

    def assigned(self, queues: list[MessageQueue]) -> Awaitable[None] | None:
        """Called when queues have been assigned to the consumer, before it fetches their first messages."""

    def revoked(self, queues: list[MessageQueue]) -> Awaitable[None] | None:
        """Called before the consumer stores the offsets of queues for the last time and releases them.

        Listeners of a push consumer have finished with the queues, unless they take longer than a second (20 s if
        orderly). A pull consumer may call `commit`. Not called if the process ends without `close`.
        """


class QueueCalls:
    """Calls the queue listener of one consumer, if there is one."""

    def __init__(self, listener: QueueListener | None, group: str, world: World) -> None:
        if listener is not None:
            check_method("queue_listener", listener, "assigned", "queues")
            check_method("queue_listener", listener, "revoked", "queues")
        self._listener = listener
        self._group = group
        self._in_thread = world.in_thread

    async def assigned(self, queues: Iterable[MessageQueue]) -> None:
        """Report queues that were assigned."""
        if self._listener is not None:
            await self._call(self._listener.assigned, queues)

    async def revoked(self, queue: MessageQueue) -> None:
        """Report a queue that is about to be released."""
        if self._listener is not None:
            await self._call(self._listener.revoked, [queue])

    async def _call(self, method: Callable[[list[MessageQueue]], Any], queues: Iterable[MessageQueue]) -> None:
        shown = sorted(queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX))
        if not shown:
            return
        token = enter(self)
        try:
            if inspect.iscoroutinefunction(method):
                await method(shown)
            else:
                outcome = await self._in_thread(copy_context().run, call_user_code, method, shown)
                if inspect.isawaitable(outcome):
                    await outcome
        except BaseException as error:
            raise_interruption(error)
            log.error("the queue listener of group %s failed for %s", self._group, shown, exc_info=error)
        finally:
            leave(token)

    @property
    def calling(self) -> bool:
        """Whether the running code is a call of the listener."""
        return self._listener is not None and is_within(self)

    def check_outside(self, method: str) -> None:
        """Raise `ClientStateError` in a call of the listener: it would wait for itself."""
        if self.calling:
            raise ClientStateError(
                f"{method} waits for the rebalance of consumer {self._group}, so its queue listener cannot call"
                f" {method}: call it elsewhere"
            )
