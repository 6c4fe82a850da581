"""Broker hooks: called around requests, sends, pulls and send-backs (RocketMQ's RPCHook, SendMessageHook and
ConsumeMessageHook).

A hook is a plug-in named by the setting `brokerHooks`. It runs on the loop, so it must not block. It may reject a
request before it starts, and receives the response when it is sent. As in Java, only `Refused` rejects: any other
exception of a hook is logged, and the request continues without the hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Ask, Cold, Handler, Hold, Outcome, Parked, Reply, reply
from bolide.broker.refused import Refused, remark_of, response_code
from bolide.layout.properties import parse_properties
from bolide.layout.record import Record, decode_records
from bolide.remoting.codec import Response
from bolide.remoting.command import Command, make_response
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageRequestHeader
from bolide.remoting.headers.retries import ConsumerSendMsgBackRequestHeader
from bolide.remoting.headers.send import SendHeader
from bolide.remoting.request_routes import Kind, RequestTable, Row


class Answer:
    """A response: `code`, `remark` and the header's `fields`."""

    def __init__(self, response: Response) -> None:
        self.code = response.code
        self.remark = response.remark
        self.fields = dict(response.ext())
        self._body = response.body

    def records(self) -> list[Record]:
        """Return the records in the response to a pull."""
        body = self._body
        return decode_records(body if isinstance(body, bytes) else b"".join(body))


class RequestCall:
    """One request. `remote`: the client's `ip:port`; `client_id`: "" until its first heartbeat; `now`: ms since the
    epoch; `fields`: header fields. `answer` is set in the `after` methods; `state` is reserved for hooks."""

    def __init__(self, channel: Channel, command: Command, now: int) -> None:
        self.remote = channel.remote
        self.client_id = channel.client_id
        self.code = command.code
        self.fields = dict(command.ext())
        self.body = command.body
        self.now = now
        self.answer: Answer | None = None
        self.state: dict[str, Any] = {}


class SendCall:
    """One send of a producer. `body` is a whole batch if `batch` is True. `request` is the request that contains it."""

    def __init__(self, request: RequestCall, header: SendHeader) -> None:
        self.request = request
        self.producer_group = header.producer_group
        self.topic = header.topic
        self.queue_id = header.queue_id
        self.properties = parse_properties(header.properties or "")
        self.batch: bool = header.batch is True
        self.body = request.body

    @property
    def answer(self) -> Answer | None:
        """The response to the producer; its fields contain msgId, queueId and queueOffset."""
        return self.request.answer


class ConsumeCall:
    """One pull of a consumer, from its first run to its response, however long it was held."""

    def __init__(self, request: RequestCall, header: PullMessageRequestHeader) -> None:
        self.request = request
        self.consumer_group = header.consumer_group
        self.topic = header.topic
        self.queue_id = header.queue_id
        self.queue_offset = header.queue_offset

    @property
    def answer(self) -> Answer | None:
        """The response to the consumer; `records()` returns the messages."""
        return self.request.answer


class SendBackCall:
    """One message that a consumer returns for a retry (CONSUMER_SEND_MSG_BACK). `offset` is its physical offset.

    The client names the `topic` of the first delivery and the `message_id`; both can be "". A `delay_level` below 0
    requests the dead letter queue, and with 0 the broker chooses the level.
    """

    def __init__(self, request: RequestCall, header: ConsumerSendMsgBackRequestHeader) -> None:
        self.request = request
        self.consumer_group = header.group
        self.topic = header.origin_topic or ""
        self.message_id = header.origin_msg_id or ""
        self.offset = header.offset
        self.delay_level = header.delay_level
        self.max_reconsume_times = header.max_reconsume_times

    @property
    def answer(self) -> Answer | None:
        """The response to the consumer."""
        return self.request.answer


Inner: TypeAlias = SendCall | ConsumeCall | SendBackCall
"""The part of a request for which hooks have methods."""


class BrokerHook:
    """Base class of hooks. They run in the order of the setting, and their `after` methods in reverse order."""

    def before_request(self, call: RequestCall) -> None:
        """Called before any request starts. May raise `Refused(code, remark)`."""

    def after_request(self, call: RequestCall) -> None:
        """Called when the response is sent."""

    def before_send(self, call: SendCall) -> None:
        """Called before a message, a batch or a reply is checked. May raise `Refused(code, remark)`."""

    def after_send(self, call: SendCall) -> None:
        """Called when the producer gets its response. An accepted message is then as safe as the settings guarantee."""

    def before_consume(self, call: ConsumeCall) -> None:
        """Called before a pull starts. May raise `Refused(code, remark)`."""

    def after_consume(self, call: ConsumeCall) -> None:
        """Called when the consumer gets its response, with or without messages."""

    def before_send_back(self, call: SendBackCall) -> None:
        """Called before a message is returned for a retry. May raise `Refused(code, remark)`: the consumer
        redelivers the message itself."""

    def after_send_back(self, call: SendBackCall) -> None:
        """Called when the response is sent."""


class Hooked:
    """Wraps the handlers of a broker with hooks. `failed` is called with exceptions of hooks."""

    def __init__(self, hooks: Sequence[BrokerHook], failed: Callable[[str, BaseException], None]) -> None:
        self._hooks = list(hooks)
        self._by_topic: Mapping[str, Sequence[BrokerHook]] = {}
        self._failed = failed
        self.is_around = False

    def choose(self, by_topic: Mapping[str, Sequence[BrokerHook]]) -> None:
        """Set the hooks of topics. They are called around sends, pulls and send-backs of these topics, inside the
        global hooks."""
        self._by_topic = by_topic

    def around(self, table: RequestTable[Channel, Outcome]) -> None:
        """Wrap every handler of this table."""
        self.is_around = True
        for code, row in table.rows.items():
            table.handlers[code] = self._around(table.handlers[code], row)

    def _around(self, handler: Handler, row: Row[Channel, Outcome]) -> Handler:
        header = row.header if row.kind in (Kind.SEND, Kind.PULL) else None

        def handle(channel: Channel, command: Command, now: int) -> Outcome:
            call = RequestCall(channel, command, now)
            inner = None if header is None else self._inner(call, command, header)
            if not self._hooks and not self._chosen(inner):
                return handler(channel, command, now)  # no hook applies to this request
            try:
                self._before(call, inner)
            except Refused as refused:
                no = make_response(command, refused.response_code, str(refused))
                self._after(call, inner, no)
                return reply(no)
            return self._run(lambda: handler(channel, command, now), call, inner, command)

        return handle

    def _run(self, work: Callable[[], Outcome], call: RequestCall, inner: Inner | None, command: Command) -> Outcome:
        try:
            outcome = work()
        except Exception as error:  # the executor converts it to a response, which the hooks receive here
            self._after(call, inner, make_response(command, response_code(error), remark_of(error)))
            raise
        return self._watched(outcome, call, inner, command)

    def _inner(self, call: RequestCall, command: Command, header: type[Header]) -> Inner | None:
        """Return the send, pull or send-back of this request, or None if its handler will reject the header."""
        try:
            decoded = decode_header(command, header)
        except HeaderError:
            return None
        if isinstance(decoded, SendHeader):
            return SendCall(call, decoded)
        if isinstance(decoded, ConsumerSendMsgBackRequestHeader):
            return SendBackCall(call, decoded)
        return ConsumeCall(call, decoded) if isinstance(decoded, PullMessageRequestHeader) else None

    def _before(self, call: RequestCall, inner: Inner | None) -> None:
        for hook in self._hooks:
            self._tell(hook.before_request, call)
            if inner is not None:
                self._tell(_before_of(hook, inner), inner)
        if inner is not None:
            for hook in self._chosen(inner):
                self._tell(_before_of(hook, inner), inner)

    def _chosen(self, inner: Inner | None) -> list[BrokerHook]:
        """Return the hooks of this call's topic, without those that are also global."""
        if inner is None:
            return []
        return [hook for hook in self._by_topic.get(inner.topic, ()) if type(hook) not in map(type, self._hooks)]

    def _after(self, call: RequestCall, inner: Inner | None, response: Response) -> None:
        call.answer = Answer(response)
        for hook in reversed(self._chosen(inner)):
            try:
                if inner is not None:
                    self._tell(_after_of(hook, inner), inner)
            except Refused as late:
                self._failed(f"the broker hook {type(hook).__name__}, too late to refuse,", late)
        for hook in reversed(self._hooks):
            try:
                if inner is not None:
                    self._tell(_after_of(hook, inner), inner)
                self._tell(hook.after_request, call)
            except Refused as late:
                self._failed(f"the broker hook {type(hook).__name__}, too late to refuse,", late)

    def _tell(self, method: Callable[[Any], None], call: Any) -> None:
        try:
            method(call)
        except Refused:
            raise
        except Exception as error:  # as in Java: a hook that fails must not cost the request
            self._failed(f"the broker hook {type(getattr(method, '__self__', method)).__name__}", error)

    def _watched(self, outcome: Outcome, call: RequestCall, inner: Inner | None, command: Command) -> Outcome:
        """Wrap an outcome so that the `after_*` hooks run when its response is sent, even if that is deferred."""

        def on(again: Callable[..., Outcome]) -> Callable[..., Outcome]:
            return lambda *arguments: self._run(lambda: again(*arguments), call, inner, command)

        if isinstance(outcome, Reply):
            self._after(call, inner, outcome.response)
        elif isinstance(outcome, Parked) and not command.is_oneway:
            response = outcome.reply.response
            outcome.after = lambda: self._after(call, inner, response)
        elif isinstance(outcome, Parked):
            self._after(call, inner, outcome.reply.response)
        elif isinstance(outcome, Hold):
            outcome.waiter.again = on(outcome.waiter.again)
        elif isinstance(outcome, Cold):
            outcome.again = on(outcome.again)
        elif isinstance(outcome, Ask):
            outcome.then = on(outcome.then)
        return outcome


def _before_of(hook: BrokerHook, inner: Inner) -> Callable[[Any], None]:
    if isinstance(inner, SendCall):
        return hook.before_send
    return hook.before_consume if isinstance(inner, ConsumeCall) else hook.before_send_back


def _after_of(hook: BrokerHook, inner: Inner) -> Callable[[Any], None]:
    if isinstance(inner, SendCall):
        return hook.after_send
    return hook.after_consume if isinstance(inner, ConsumeCall) else hook.after_send_back
