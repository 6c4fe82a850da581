"""Timed messages, abandoned transactions, and the trace of a message (mqadmin's queryMsgTraceById)."""

from __future__ import annotations

from msgspec import field

from bolide.admin.calls import AdminCalls, ext_of
from bolide.admin.messages import MessageCalls
from bolide.admin.tracing import found_trace
from bolide.client.messages.checked import checked_methods
from bolide.client.messages.received import ReceivedMessage
from bolide.client.tracing.trace import TraceContext
from bolide.layout.names import TRACE_TOPIC
from bolide.remoting import codes
from bolide.remoting.bodies.base import Body, Int64, decode_answer


class _Timing(Body):
    count: Int64 = 0


class _TimerMetrics(Body):
    """Response to GET_TIMER_METRICS."""

    timing_count: dict[str, _Timing] = field(default_factory=dict)


@checked_methods
class WaitingCalls(MessageCalls, AdminCalls):
    """Calls on messages that are not delivered yet, and on the trace of a message."""

    async def timed_messages(self, *, cluster: str | None = None, broker: str | None = None) -> dict[str, int]:
        """Return the number of pending timer messages of each topic on all masters, or only in `cluster` or at
        `broker`. Omits brokers of 4.9, which have no timers."""
        found: dict[str, int] = {}
        accept = (codes.SUCCESS, codes.REQUEST_CODE_NOT_SUPPORTED)
        for address in (await self.masters(cluster, broker)).values():
            answer = await self.ask(address, codes.GET_TIMER_METRICS, accept=accept)
            if answer.code != codes.SUCCESS:
                continue
            for topic, timing in decode_answer(answer.body, _TimerMetrics).timing_count.items():
                found[topic] = found.get(topic, 0) + timing.count
        return dict(sorted(found.items()))

    async def resume_check(self, message: ReceivedMessage) -> None:
        """Make a broker resume the checks of a half message that it abandoned (a message of
        TRANS_CHECK_MAX_TIME_TOPIC).

        Raises `ResponseError` if the broker did not abandon it.
        """
        ext = ext_of(topic=message.record.topic, msgId=message.offset_message_id)
        await self.ask(await self.master_of(message.queue), codes.RESUME_CHECK_HALF_MESSAGE, ext)

    async def message_trace(self, message_id: str, *, topic: str = TRACE_TOPIC) -> list[TraceContext]:
        """Return the traced steps of the message with this id, by time. Skips steps that cannot be read.

        `topic` is the topic to which the clients send their traces. Each broker returns at most its 64 newest trace
        messages, which contain up to 20 steps; `bolide message trace` reports when a broker reaches this limit. Raises
        `TopicNotFound`.
        """
        return list((await found_trace(self, message_id, topic=topic)).recorded)
