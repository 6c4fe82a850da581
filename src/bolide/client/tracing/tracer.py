"""Tracer: an interceptor that sends the trace of messages to a topic (RocketMQ's AsyncTraceDispatcher and trace hooks).

One message contains up to 20 steps, and is sent at most 5 s after the first of them. A full buffer drops steps instead
of slowing down the traced traffic. The message's keys are the ids and keys of the traced messages, so that a search by
message id finds the trace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from itertools import islice
from typing import Any, Final, Protocol

from bolide.client.messages.listener import RetryLater
from bolide.client.messages.message import Message
from bolide.client.messages.send_result import DEFAULT_REGION, SendResult, SendStatus
from bolide.client.messages.transaction import TransactionState
from bolide.client.tracing.interceptor import ConsumeCall, EndTransactionCall, Interceptor, SendCall
from bolide.client.tracing.trace import (
    COMMITTED,
    CONSUME_BEGINS,
    CONSUME_ENDS,
    DELAYED,
    EXCEPTION,
    FAILED,
    HALF,
    NORMAL,
    SENT,
    SUCCESS,
    TRANSACTION_ENDS,
    TraceBean,
    TraceContext,
    encode_trace,
    trace_keys,
)
from bolide.errors import BolideError
from bolide.layout import property_names as names
from bolide.layout.names import TRACE_TOPIC
from bolide.layout.sysflag import TRANSACTION_PREPARED
from bolide.world.contract import World
from bolide.world.real import THE_WORLD

log = logging.getLogger("bolide.client")

TRACE_GROUP: Final = "_INNER_TRACE_PRODUCER"
TRACE_TIMEOUT: Final = 5.0
BATCH: Final = 20
FLUSH_INTERVAL: Final = 5.0
MAX_WAITING: Final = 2048
MAX_BODY: Final = 128_000
MAX_KEYS: Final = 20_000
"""Maximum number of bytes of keys in one trace message; all properties together may have 32,767."""
STATE_NAMES: Final = {
    TransactionState.COMMIT: "COMMIT_MESSAGE",
    TransactionState.ROLLBACK: "ROLLBACK_MESSAGE",
    TransactionState.UNKNOWN: "UNKNOW",
}
"""Java's names of the states, in Java's spelling."""


class TraceSender(Protocol):
    """Interface of a producer for a tracer."""

    async def start(self) -> Any:
        """Join the client."""

    async def close(self) -> None:
        """Wait for pending sends, and leave."""

    def submit(self, message: Message) -> asyncio.Future[SendResult]:
        """Send without waiting."""


class Tracer(Interceptor):
    """Traces the sends of a producer or the listener calls of a consumer. `dropped` is the number of steps lost because
    the buffer was full. Skips messages whose broker has tracing off (TRACE_ON false), and the trace topic itself."""

    def __init__(self, sender: TraceSender, topic: str = TRACE_TOPIC, world: World = THE_WORLD) -> None:
        self.dropped = 0
        self._sender = sender
        self._topic = topic
        self._waiting: deque[TraceContext] = deque()
        self._world = world
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        """Start the producer of traces."""
        self._loop = asyncio.get_running_loop()
        await self._sender.start()

    async def close(self) -> None:
        """Send the buffered steps, and wait for the result."""
        await asyncio.sleep(0)  # add steps that a listener's thread has just passed to the loop
        self._flush()
        self._loop = None
        await self._sender.close()

    # -- recording

    def after_send(self, call: SendCall) -> None:
        """Add a Pub line for a stored message. A failed send leaves no trace, as in Java."""
        result = call.result
        message = call.message
        if result is None or call.oneway or not result.trace_on or message.topic.startswith(self._topic):
            return
        kind = HALF if call.sys_flag & TRANSACTION_PREPARED else DELAYED if message.delay_level else NORMAL
        bean = TraceBean(
            call.message_id,
            message.topic,
            message.tags,
            message.keys_text,
            call.broker_address,
            result.offset_message_id,
            call.body_length,
            kind,
        )
        success = result.status is SendStatus.SEND_OK
        cost = self._world.wall_ms() - call.began
        self._append(TraceContext(SENT, call.began, call.group, (bean,), result.region_id, cost, success))

    def after_end_transaction(self, call: EndTransactionCall) -> None:
        """Add an EndTransaction line."""
        if call.topic.startswith(self._topic):
            return
        bean = TraceBean(
            call.message_id,
            call.topic,
            call.tags,
            call.keys,
            call.broker_address,
            message_type=COMMITTED,
            transaction_id=call.transaction_id,
            transaction_state=STATE_NAMES[call.state],
            from_check=call.from_check,
        )
        self._append(TraceContext(TRANSACTION_ENDS, call.began, call.group, (bean,), call.region_id))

    def before_consume(self, call: ConsumeCall) -> None:
        """Add a SubBefore line for each message of a listener call."""
        traced = [message for message in call.messages if message.get_property(names.TRACE_ON) != "false"]
        if not traced:
            return
        beans = tuple(
            TraceBean(
                message.message_id,
                message.topic,
                keys=message.get_property(names.KEYS) or "",
                retry_times=message.reconsume_times,
            )
            for message in traced
        )
        region = traced[-1].get_property(names.MSG_REGION) or DEFAULT_REGION
        request_id = self._world.random.randbytes(16).hex().upper()
        begun = TraceContext(CONSUME_BEGINS, call.began, call.group, beans, region, request_id=request_id)
        call.state["trace"] = begun
        self._append(begun)

    def after_consume(self, call: ConsumeCall) -> None:
        """Add a SubAfter line for each message of a finished listener call."""
        begun: TraceContext | None = call.state.get("trace")
        if begun is None:
            return
        now = self._world.wall_ms()
        if call.success:
            code = SUCCESS
        else:
            code = FAILED if call.error is None or isinstance(call.error, RetryLater) else EXCEPTION
        self._append(
            TraceContext(
                CONSUME_ENDS,
                now,
                call.group,
                begun.beans,
                begun.region_id,
                (now - call.began) // len(call.messages),
                call.success,
                begun.request_id,
                code,
            )
        )

    # -- sending

    def _append(self, context: TraceContext) -> None:
        """Buffer a step. Thread-safe."""
        loop = self._loop
        if loop is None:
            return  # closed: later steps are not sent
        if loop is running_loop():
            self._take(context)
        else:
            loop.call_soon_threadsafe(self._take, context)

    def _take(self, context: TraceContext) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            return
        self._waiting.append(context)
        if len(self._waiting) >= BATCH:
            self._flush()
        elif self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(FLUSH_INTERVAL, self._flush)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            by_topic: dict[str, list[TraceContext]] = {}
            for context in list(islice(self._waiting, BATCH)):
                by_topic.setdefault(context.beans[0].topic, []).append(context)
                self._waiting.popleft()
            for contexts in by_topic.values():
                self._send(contexts)

    def _send(self, contexts: list[TraceContext]) -> None:
        """Send the steps of one topic in one message, or in several if they are long."""
        text: list[str] = []
        keys: set[str] = set()
        size = key_size = 0
        for context in contexts:
            lines = encode_trace(context)
            more = trace_keys(context)
            length, key_length = len(lines.encode()), sum(len(key.encode()) + 1 for key in more)
            if text and (size + length > MAX_BODY or key_size + key_length > MAX_KEYS):
                self._submit(text, keys)
                text, keys, size, key_size = [], set(), 0, 0
            text.append(lines)
            keys |= more
            size += length
            key_size += key_length
        self._submit(text, keys)

    def _submit(self, text: list[str], keys: set[str]) -> None:
        try:
            future = self._sender.submit(Message(self._topic, "".join(text).encode(), keys=sorted(keys)))
        except BolideError as error:
            self.dropped += len(text)
            log.warning("%d traces could not be sent: %s", len(text), error)
        else:
            future.add_done_callback(_sent)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop of this thread, or None."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _sent(future: asyncio.Future[SendResult]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("a trace could not be sent: %s", error)
