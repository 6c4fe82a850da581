"""Broker hooks: called around requests, sends and pulls (RocketMQ's RPCHook, SendMessageHook and ConsumeMessageHook).

A hook is a plug-in named by the setting `brokerHooks`. It runs on the loop, so it must not wait for anything; it may
refuse a request before it starts, and sees the answer when it leaves. As in Java only `Refused` refuses: any other
exception of a hook is logged, and the request continues as without the hook.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bolide.broker.core.channel import Channel
from bolide.broker.core.link import Buffer
from bolide.broker.core.outcome import Ask, Cold, Handler, Hold, Outcome, Parked, Reply, reply
from bolide.broker.refused import Refused, remark_of, response_code
from bolide.layout.properties import parse_properties
from bolide.layout.record import Record, decode_records
from bolide.remoting.command import Command, make_response
from bolide.remoting.connection import FramedConnection
from bolide.remoting.errors import HeaderError
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.decode import decode_header
from bolide.remoting.headers.pull import PullMessageRequestHeader
from bolide.remoting.headers.send import SendHeader
from bolide.remoting.request_routes import Kind, RequestTable, Row

MAX_ANSWER: Final = 1 << 30


class Answer:
    """What a request is answered with: `code`, `remark` and the header's `fields`."""

    def __init__(self, command: Command) -> None:
        self.code = command.code
        self.remark = command.remark
        self.fields = command.ext()
        self._body = command.body

    def records(self) -> list[Record]:
        """The records that the answer to a pull carries."""
        return decode_records(self._body)


class RequestCall:
    """One request. `remote` is the peer's `ip:port`, `client_id` "" until its first heartbeat, `now` ms since the
    epoch; `fields` are the header's. `answer` is there for the methods that come after; `state` is the hooks' own."""

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
    """One send of a producer; `body` is a whole batch when `batch` is True. `request` is the request it came in."""

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
        """What the producer is told; its fields have msgId, queueId and queueOffset."""
        return self.request.answer


class ConsumeCall:
    """One pull of a consumer, from its first try to its answer, however long it was held."""

    def __init__(self, request: RequestCall, header: PullMessageRequestHeader) -> None:
        self.request = request
        self.consumer_group = header.consumer_group
        self.topic = header.topic
        self.queue_id = header.queue_id
        self.queue_offset = header.queue_offset

    @property
    def answer(self) -> Answer | None:
        """What the consumer is told; `records()` are the messages."""
        return self.request.answer


class BrokerHook:
    """Base of hooks: override what you need. They run in the order of the setting, the `after` ones in the reverse."""

    def before_request(self, call: RequestCall) -> None:
        """Before any request is begun. May raise `Refused(code, remark)`."""

    def after_request(self, call: RequestCall) -> None:
        """Its answer leaves."""

    def before_send(self, call: SendCall) -> None:
        """Before a message, a batch or a reply is checked. May raise `Refused(code, remark)`."""

    def after_send(self, call: SendCall) -> None:
        """The producer is answered: of an accepted message, when it is as safe as the producer was promised."""

    def before_consume(self, call: ConsumeCall) -> None:
        """Before a pull is begun. May raise `Refused(code, remark)`."""

    def after_consume(self, call: ConsumeCall) -> None:
        """The consumer is answered, with messages or without."""


class Hooked:
    """The handlers of a broker with the hooks around them. `failed` is told what a hook raised."""

    def __init__(self, hooks: Sequence[BrokerHook], failed: Callable[[str, BaseException], None]) -> None:
        self._hooks = list(hooks)
        self._by_topic: Mapping[str, Sequence[BrokerHook]] = {}
        self._failed = failed
        self.is_around = False

    def choose(self, by_topic: Mapping[str, Sequence[BrokerHook]]) -> None:
        """Hooks of single topics: called around sends and pulls of these, inside those that see everything."""
        self._by_topic = by_topic

    def around(self, table: RequestTable[Channel, Outcome]) -> None:
        """Put the hooks around every handler of this table."""
        self.is_around = True
        for code, row in table.rows.items():
            table.handlers[code] = self._around(table.handlers[code], row)

    def _around(self, handler: Handler, row: Row[Channel, Outcome]) -> Handler:
        header = row.header if row.kind in (Kind.SEND, Kind.PULL) else None

        def handle(channel: Channel, command: Command, now: int) -> Outcome:
            call = RequestCall(channel, command, now)
            inner = None if header is None else self._inner(call, command, header)
            if not self._hooks and not self._chosen(inner):
                return handler(channel, command, now)  # no topic of this request has chosen one
            try:
                self._before(call, inner)
            except Refused as refused:
                no = make_response(command, refused.response_code, str(refused))
                self._after(call, inner, no)
                return reply(no)
            return self._run(lambda: handler(channel, command, now), call, inner, command)

        return handle

    def _run(
        self, work: Callable[[], Outcome], call: RequestCall, inner: SendCall | ConsumeCall | None, command: Command
    ) -> Outcome:
        try:
            outcome = work()
        except Exception as error:  # the executor makes an answer of it; the hooks hear of that answer here
            self._after(call, inner, make_response(command, response_code(error), remark_of(error)))
            raise
        return self._watched(outcome, call, inner, command)

    def _inner(self, call: RequestCall, command: Command, header: type[Header]) -> SendCall | ConsumeCall | None:
        """The send or pull in this request; None for a message sent back, and for a header its handler will refuse."""
        try:
            decoded = decode_header(command, header)
        except HeaderError:
            return None
        if isinstance(decoded, SendHeader):
            return SendCall(call, decoded)
        return ConsumeCall(call, decoded) if isinstance(decoded, PullMessageRequestHeader) else None

    def _before(self, call: RequestCall, inner: SendCall | ConsumeCall | None) -> None:
        for hook in self._hooks:
            self._tell(hook.before_request, call)
            if isinstance(inner, SendCall):
                self._tell(hook.before_send, inner)
            elif inner is not None:
                self._tell(hook.before_consume, inner)
        for hook in self._chosen(inner):
            self._tell(hook.before_send if isinstance(inner, SendCall) else hook.before_consume, inner)

    def _chosen(self, inner: SendCall | ConsumeCall | None) -> list[BrokerHook]:
        """The hooks this call's topic has chosen, without those that see it anyhow."""
        if inner is None:
            return []
        return [hook for hook in self._by_topic.get(inner.topic, ()) if type(hook) not in map(type, self._hooks)]

    def _after(self, call: RequestCall, inner: SendCall | ConsumeCall | None, answer: Command) -> None:
        call.answer = Answer(answer)
        for hook in reversed(self._chosen(inner)):
            try:
                self._tell(hook.after_send if isinstance(inner, SendCall) else hook.after_consume, inner)
            except Refused as late:
                self._failed(f"the broker hook {type(hook).__name__}, too late to refuse,", late)
        for hook in reversed(self._hooks):
            try:
                if isinstance(inner, SendCall):
                    self._tell(hook.after_send, inner)
                elif inner is not None:
                    self._tell(hook.after_consume, inner)
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

    def _watched(
        self, outcome: Outcome, call: RequestCall, inner: SendCall | ConsumeCall | None, command: Command
    ) -> Outcome:
        """The outcome, changed so that the hooks hear of the answer, however long it takes."""

        def on(again: Callable[..., Outcome]) -> Callable[..., Outcome]:
            return lambda *arguments: self._run(lambda: again(*arguments), call, inner, command)

        if isinstance(outcome, Reply):
            self._after(call, inner, whole(outcome.frame, outcome.body) if outcome.command is None else outcome.command)
        elif isinstance(outcome, Parked) and not command.is_oneway:
            outcome.after = lambda frame: self._after(call, inner, whole(frame, None))
        elif isinstance(outcome, Parked):
            answer = outcome.reply
            self._after(call, inner, whole(answer.frame, None) if answer.command is None else answer.command)
        elif isinstance(outcome, Hold):
            outcome.held.again = on(outcome.held.again)
        elif isinstance(outcome, Cold):
            outcome.again = on(outcome.again)
        elif isinstance(outcome, Ask):
            outcome.then = on(outcome.then)
        return outcome


def whole(frame: bytes, body: list[Buffer] | None) -> Command:
    """The broker's answer, parsed again: only brokers with hooks have this cost."""
    return FramedConnection(MAX_ANSWER).receive(frame if body is None else b"".join([frame, *body]))[0]
