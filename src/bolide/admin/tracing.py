"""The trace of a message (mqadmin's queryMsgTraceById): what producers and consumers recorded, joined to steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from bolide.admin.messages import MAX_TIME, MessageCalls
from bolide.client.messages.moment import Moment, moment_ms
from bolide.client.tracing.trace import (
    CONSUME_BEGINS,
    CONSUME_ENDS,
    SENT,
    SUCCESS,
    TRANSACTION_ENDS,
    TraceContext,
    decode_trace,
)
from bolide.errors import BolideError
from bolide.layout.limits import MAX_FOUND
from bolide.layout.names import TRACE_TOPIC

SEND, TRANSACTION, CONSUME = "send", "transaction", "consume"
FAILED: Final = "failed"
NOT_ENDED: Final = "started, end not reported"
NOT_STARTED: Final = "start not reported"


@dataclass(frozen=True, slots=True)
class TracedStep:
    """A send, the end of a transaction, or one call of a listener.

    `begin` is in ms since 1970, or 0 if it is not reported; `cost_ms` is None without an end. `client` is the address
    of the host that recorded the step, and `broker` the address that stored the message; both may be "". `retries` is
    the number of earlier deliveries.
    """

    kind: str
    group: str
    status: str
    begin: int
    cost_ms: int | None
    client: str = ""
    broker: str = ""
    retries: int = 0

    @property
    def failed(self) -> bool:
        """Whether the send or the listener failed."""
        return self.status.startswith(FAILED)


@dataclass(slots=True)
class FoundTrace:
    """The recorded steps of a message, by time, each with the address of its client. `limit_reached`: a broker returned
    as many trace messages as it may, so that there may be more. `unreadable` is the number of damaged ones."""

    recorded: dict[TraceContext, str] = field(default_factory=dict)
    limit_reached: bool = False
    unreadable: int = 0

    @property
    def steps(self) -> list[TracedStep]:
        """The steps, with the start and the end of each listener call joined."""
        return steps_of(self.recorded)


async def found_trace(
    admin: MessageCalls,
    message_id: str,
    *,
    topic: str = TRACE_TOPIC,
    max_messages: int = MAX_FOUND,
    begin: Moment = 0,
    end: Moment | None = None,
) -> FoundTrace:
    """Search a trace topic for a message's id. Reads at most `max_messages` trace messages of each broker, the newest
    ones, that are stored from `begin` to `end`. Raises `TopicNotFound`."""
    until = MAX_TIME if end is None else moment_ms("end", end)
    messages, full = await admin._query(topic, message_id, max_messages, moment_ms("begin", begin), until, "K")
    recorded: dict[TraceContext, str] = {}
    unreadable = 0
    for message in messages:
        try:
            found = decode_trace(message.body.decode("utf-8", "replace"))
        except BolideError:
            unreadable += 1
            continue
        for step in found:
            if any(bean.message_id == message_id for bean in step.beans):
                recorded.setdefault(step, message.born_host)
    return FoundTrace(dict(sorted(recorded.items(), key=lambda entry: entry[0].timestamp)), full, unreadable)


def steps_of(recorded: dict[TraceContext, str] | Iterable[TraceContext]) -> list[TracedStep]:
    """Return the sends, the ends of transactions, and the listener calls, each joined with its end if traced."""
    hosts = recorded if isinstance(recorded, dict) else dict.fromkeys(recorded, "")
    ends = {each.request_id: each for each in hosts if each.kind == CONSUME_ENDS}
    begun = {each.request_id for each in hosts if each.kind == CONSUME_BEGINS}
    found = []
    for each, client in hosts.items():
        bean = each.beans[0]
        if each.kind == SENT:
            status = "stored" if each.success else FAILED
            step = TracedStep(SEND, each.group, status, each.timestamp, each.cost_ms, client, bean.store_host)
        elif each.kind == TRANSACTION_ENDS:
            status = bean.transaction_state + (" after a check" if bean.from_check else "")
            step = TracedStep(TRANSACTION, each.group, status, each.timestamp, 0, client, bean.store_host)
        elif each.kind == CONSUME_BEGINS:
            end = ends.get(each.request_id)
            status = NOT_ENDED if end is None else _ended(end)
            cost = None if end is None else end.cost_ms
            step = TracedStep(CONSUME, each.group, status, each.timestamp, cost, client, retries=bean.retry_times)
        elif each.kind == CONSUME_ENDS and each.request_id not in begun:
            begin = max(each.timestamp - each.cost_ms, 0)
            step = TracedStep(CONSUME, each.group, f"{_ended(each)}, {NOT_STARTED}", begin, each.cost_ms, client)
        else:
            continue
        found.append(step)
    return sorted(found, key=lambda step: step.begin)


def _ended(end: TraceContext) -> str:
    return "consumed" if end.success and end.context_code == SUCCESS else FAILED
