"""OpenTelemetry: a span for each send and each listener call, in one trace (extra ``bolide[otel]``).

Names and attributes follow OpenTelemetry's semantic conventions for messaging, including the attributes for RocketMQ.
The message's properties contain the context (`traceparent`, `tracestate`, `baggage` by default, as the global
propagator writes them), so that consumers in any language that read them join the trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from bolide.client.messages.checked import checked_constructor
from bolide.client.messages.message import Message
from bolide.client.messages.moment import moment_ms
from bolide.client.messages.received import ReceivedMessage
from bolide.client.tracing.interceptor import ConsumeCall, Interceptor, SendCall
from bolide.layout import property_names as names
from bolide.layout.sysflag import TRANSACTION_PREPARED
from bolide.layout.words import split_keys
from bolide.version import VERSION

SCOPE: Final = "bolide.client"
SYSTEM: Final = "rocketmq"
SEND, PROCESS, RECEIVE = "send", "process", "receive"
_STATE: Final = "otel"


@checked_constructor
class OpenTelemetry(Interceptor):
    """Creates spans: ``Producer("orders", interceptors=(OpenTelemetry(),))``, and the same for consumers.

    A send is a PRODUCER span. A listener call is a CONSUMER span, which is current while the listener runs. It is a
    child of the send for a single message, and linked to every send for a batch. A poll is a short CLIENT span with
    links. The default `provider` is the global one. Raises `ImportError` at import without opentelemetry-api.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._tracer: Tracer = trace.get_tracer(SCOPE, VERSION, provider)

    def before_send(self, call: SendCall) -> None:
        """Start a child of the caller's span, and add its context to the message."""
        message = call.message
        span = self._tracer.start_span(
            f"{SEND} {message.topic}", kind=SpanKind.PRODUCER, attributes=_send_attributes(call.group, message)
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, trace.set_span_in_context(span))
        if carrier:
            call.message = replace(message, properties={**message.properties, **carrier})
        call.state[_STATE] = span

    def after_send(self, call: SendCall) -> None:
        """End the span with the broker's response."""
        span: Span = call.state.pop(_STATE)
        if call.message_id:
            span.set_attribute("messaging.message.id", call.message_id)
        host, _, port = call.broker_address.rpartition(":")
        if port.isdigit():
            span.set_attribute("server.address", host)
            span.set_attribute("server.port", int(port))
        if call.result is not None:
            span.set_attribute("messaging.destination.partition.id", str(call.result.queue.queue_id))
        if call.sys_flag & TRANSACTION_PREPARED:
            span.set_attribute("messaging.rocketmq.message.type", "transaction")
        _end(span, call.error)

    def before_consume(self, call: ConsumeCall) -> None:
        """Start a span and make it current for the listener."""
        operation, kind = (RECEIVE, SpanKind.CLIENT) if call.polled else (PROCESS, SpanKind.CONSUMER)
        topics = {message.topic for message in call.messages}
        contexts = [propagate.extract(message.properties) for message in call.messages]
        parent: context.Context | None = None
        links: list[Link] = []
        if len(contexts) == 1 and not call.polled:
            parent = contexts[0]
        else:
            links = [Link(found) for found in map(_span_context, contexts) if found.is_valid]
        name = f"{operation} {topics.pop()}" if len(topics) == 1 else operation
        attributes = _consume_attributes(call.group, operation, call.messages)
        span = self._tracer.start_span(name, parent, kind, attributes, links)
        token = None if call.polled else context.attach(trace.set_span_in_context(span, parent))
        call.state[_STATE] = (span, token)

    def after_consume(self, call: ConsumeCall) -> None:
        """End the span, as failed if the listener requests a redelivery."""
        span, token = call.state.pop(_STATE)
        if token is not None:
            context.detach(token)
        if call.error is None and not call.success:
            span.set_attribute("error.type", "retry")
            span.set_status(Status(StatusCode.ERROR, "the listener asks for the messages again"))
        _end(span, call.error)


def _span_context(found: context.Context) -> trace.SpanContext:
    return trace.get_current_span(found).get_span_context()


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        span.set_attribute("error.type", type(error).__qualname__)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()


def _attributes(operation: str, topic: str, tags: str, keys: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "messaging.system": SYSTEM,
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
    }
    if topic:
        found["messaging.destination.name"] = topic
    if tags:
        found["messaging.rocketmq.message.tag"] = tags
    if keys:
        found["messaging.rocketmq.message.keys"] = list(keys)
    return found


def _send_attributes(group: str, message: Message) -> Mapping[str, Any]:
    found = _attributes(SEND, message.topic, message.tags, split_keys(message.keys_text))
    found["messaging.message.body.size"] = len(message.body)
    found["messaging.rocketmq.client_group"] = group
    found["messaging.rocketmq.message.type"] = "normal"
    if message.delayed:
        found["messaging.rocketmq.message.type"] = "delay"
        if message.delay_level:
            found["messaging.rocketmq.message.delay_time_level"] = message.delay_level
        elif message.deliver_at is not None:
            found["messaging.rocketmq.message.delivery_timestamp"] = moment_ms("deliver_at", message.deliver_at)
    elif message.sharding_key:
        found["messaging.rocketmq.message.type"] = "fifo"
        found["messaging.rocketmq.message.group"] = message.sharding_key
    return found


def _consume_attributes(group: str, operation: str, messages: Sequence[ReceivedMessage]) -> Mapping[str, Any]:
    first = messages[0]
    if len(messages) > 1:
        topic = first.topic if all(message.topic == first.topic for message in messages) else ""
        found = _attributes(operation, topic, "", ())
        found["messaging.batch.message_count"] = len(messages)
    else:
        found = _attributes(operation, first.topic, first.tags, first.keys)
        found["messaging.message.id"] = first.message_id
        found["messaging.message.body.size"] = len(first.record.body)
        found["messaging.destination.partition.id"] = str(first.queue_id)
        if first.get_property(names.SHARDING_KEY):
            found["messaging.rocketmq.message.group"] = first.sharding_key
    found["messaging.consumer.group.name"] = group
    return found
