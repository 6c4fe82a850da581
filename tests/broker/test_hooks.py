"""Broker hooks: before and after whatever a handler answers, refusals with their code, faults that cost nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bolide.broker.core.channel import Channel
from bolide.broker.core.outcome import Ask, Cold, Handler, Hold, Outcome, Parked, Reply, Waiter, reply
from bolide.broker.hooks import BrokerHook, ConsumeCall, Hooked, RequestCall, SendBackCall, SendCall
from bolide.broker.refused import Refused
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.pull import PullMessageRequestHeader
from bolide.remoting.headers.retries import ConsumerSendMsgBackRequestHeader
from bolide.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from bolide.remoting.request_routes import Kind, RawRoute, RequestTable
from bolide.remoting.response_bytes import PullResponse
from tests.node.brokers import pull_request, send_request

PEER = Channel(1, bytes(8), "10.0.0.1:2")


class Noting(BrokerHook):
    """Notes every call; does `act` in the method it is named for."""

    def __init__(self, name: str, seen: list[str], act: dict[str, Callable[[], None]] | None = None) -> None:
        self.name, self.seen, self.act = name, seen, act or {}

    def _note(self, method: str, text: str) -> None:
        self.seen.append(f"{self.name} {method} {text}")
        self.act.get(method, lambda: None)()

    def before_request(self, call: RequestCall) -> None:
        self._note("before_request", str(call.code))

    def after_request(self, call: RequestCall) -> None:
        assert call.answer is not None
        self._note("after_request", str(call.answer.code))

    def before_send(self, call: SendCall) -> None:
        self._note("before_send", f"{call.producer_group} {call.topic} {call.properties} {call.body.decode()}")

    def after_send(self, call: SendCall) -> None:
        assert call.answer is not None
        self._note("after_send", str(call.answer.code))

    def before_consume(self, call: ConsumeCall) -> None:
        self._note("before_consume", f"{call.consumer_group} {call.topic} {call.queue_id} {call.queue_offset}")

    def after_consume(self, call: ConsumeCall) -> None:
        assert call.answer is not None
        self._note("after_consume", str(call.answer.code))

    def before_send_back(self, call: SendBackCall) -> None:
        told = (call.consumer_group, call.topic, call.message_id, call.offset, call.delay_level)
        self._note("before_send_back", f"{told} {call.max_reconsume_times}")

    def after_send_back(self, call: SendBackCall) -> None:
        assert call.answer is not None
        self._note("after_send_back", str(call.answer.code))


ROWS: dict[int, tuple[type[Header], Kind]] = {
    codes.SEND_MESSAGE: (SendMessageRequestHeader, Kind.SEND),
    codes.SEND_MESSAGE_V2: (SendMessageRequestHeaderV2, Kind.SEND),
    codes.SEND_BATCH_MESSAGE: (SendMessageRequestHeaderV2, Kind.SEND),
    codes.SEND_REPLY_MESSAGE_V2: (SendMessageRequestHeaderV2, Kind.SEND),
    codes.PULL_MESSAGE: (PullMessageRequestHeader, Kind.PULL),
    codes.CONSUMER_SEND_MSG_BACK: (ConsumerSendMsgBackRequestHeader, Kind.SEND),
}


def hooked(handler: Handler, code: int, *hooks: BrokerHook, failed: list[str] | None = None) -> Handler:
    """The handler of a code with hooks around it."""
    table: RequestTable[Channel, Outcome] = RequestTable()
    header, kind = ROWS.get(code, (None, Kind.READ))
    table.add("the service", [RawRoute(code, header, handler, kind)])
    told = [] if failed is None else failed
    Hooked(hooks, lambda what, error: told.append(f"{what}: {error}")).around(table)
    return table.handlers[code]


def answering(outcome: Callable[[Command], Outcome]) -> Handler:
    return lambda channel, command, now: outcome(command)


def parked(command: Command) -> Parked:
    return Parked(reply(make_response(command, codes.SUCCESS)), 100)


def test_a_send_is_seen_around_its_parked_answer_and_in_reverse_behind_it() -> None:
    seen: list[str] = []
    command = send_request("T", b"x", "k\x01v\x02")
    handle = hooked(answering(parked), command.code, Noting("a", seen), Noting("b", seen))
    outcome = handle(PEER, command, 1)
    before = [f"{n} {m}" for n in "ab" for m in ("before_request 310", "before_send pg T {'k': 'v'} x")]
    assert seen == before
    assert isinstance(outcome, Parked) and outcome.after is not None
    outcome.reply.response.code = codes.FLUSH_DISK_TIMEOUT  # the final code
    outcome.after()
    assert seen[4:] == [f"{n} {m} 10" for n in "ba" for m in ("after_send", "after_request")]


def test_hook_cannot_change_a_response() -> None:
    class Clearing(BrokerHook):
        def after_request(self, call: RequestCall) -> None:
            assert call.answer is not None
            call.answer.fields.clear()

    handler = answering(lambda c: reply(make_response(c, codes.SUCCESS, None, {"brokerName": "a"})))
    outcome = hooked(handler, codes.HEART_BEAT, Clearing())(PEER, make_request(codes.HEART_BEAT, 1), 1)
    assert isinstance(outcome, Reply) and isinstance(outcome.response, Command)
    assert outcome.response.ext() == {"brokerName": "a"}


def test_a_refusal_is_the_answer_and_the_handler_is_not_asked() -> None:
    seen: list[str] = []

    def no() -> None:
        raise Refused(codes.NO_PERMISSION, "not you")

    def never(channel: Channel, command: Command, now: int) -> Outcome:
        raise AssertionError("the handler was asked")

    command = send_request()
    outcome = hooked(never, command.code, Noting("a", seen, {"before_send": no}))(PEER, command, 1)
    assert isinstance(outcome, Reply) and isinstance(outcome.response, Command)
    assert (outcome.response.code, outcome.response.remark) == (codes.NO_PERMISSION, "not you")
    assert seen[-2:] == ["a after_send 16", "a after_request 16"]


@pytest.mark.parametrize("method", ["before_request", "before_send", "after_send", "after_request"])
def test_a_fault_of_a_hook_is_told_and_costs_nothing(method: str) -> None:
    failed: list[str] = []

    def fault() -> None:
        raise ZeroDivisionError("oops")

    command = send_request()
    hook = Noting("a", [], {method: fault})
    outcome = hooked(answering(parked), command.code, hook, failed=failed)(PEER, command, 1)
    assert isinstance(outcome, Parked) and outcome.after is not None
    outcome.after()
    assert failed == ["the broker hook Noting: oops"]


def test_a_refusal_that_comes_too_late_changes_nothing() -> None:
    failed: list[str] = []

    def no() -> None:
        raise Refused(codes.NO_PERMISSION, "not you")

    command = make_request(codes.HEART_BEAT, 1)
    handler = answering(lambda c: reply(make_response(c, codes.SUCCESS)))
    outcome = hooked(handler, command.code, Noting("a", [], {"after_request": no}), failed=failed)(PEER, command, 1)
    assert isinstance(outcome, Reply) and outcome.response.code == codes.SUCCESS
    assert failed == ["the broker hook Noting, too late to refuse,: not you"]


def test_a_pull_is_followed_through_cold_and_hold_to_its_answer() -> None:
    seen: list[str] = []
    command = pull_request("T", 7)

    def found(now: int) -> Outcome:
        body = [b"abc", memoryview(b"def")]
        return Reply(PullResponse(command, 0, None, body, next_begin_offset=8, min_offset=0, max_offset=8))

    held = Waiter(PEER, command, ("T", 0), 5, found)
    handle = hooked(answering(lambda c: Cold([], lambda now: Hold(held))), command.code, Noting("a", seen))
    cold = handle(PEER, command, 1)
    assert isinstance(cold, Cold)
    hold = cold.again(2)
    assert isinstance(hold, Hold) and seen == ["a before_request 11", "a before_consume g T 0 7"]
    answer = hold.waiter.again(3)
    assert isinstance(answer, Reply) and isinstance(answer.response, PullResponse)
    assert seen[2:] == ["a after_consume 0", "a after_request 0"]


def send_back(**more: str) -> Command:
    return make_request(codes.CONSUMER_SEND_MSG_BACK, 1, {"group": "g", "offset": "70", "delayLevel": "3", **more})


def test_send_back_is_seen_through_a_cold_read_to_its_parked_answer() -> None:
    seen: list[str] = []
    command = send_back(originTopic="T", originMsgId="ID", maxReconsumeTimes="5")
    handle = hooked(answering(lambda c: Cold([], lambda now: parked(c))), command.code, Noting("a", seen))
    cold = handle(PEER, command, 1)
    assert isinstance(cold, Cold)
    assert seen == ["a before_request 36", "a before_send_back ('g', 'T', 'ID', 70, 3) 5"]
    outcome = cold.again(2)
    assert isinstance(outcome, Parked) and outcome.after is not None and len(seen) == 2
    outcome.after()
    assert seen[2:] == ["a after_send_back 0", "a after_request 0"]


def test_send_back_can_be_refused() -> None:
    seen: list[str] = []

    def no() -> None:
        raise Refused(codes.SYSTEM_ERROR, "not now")

    def never(channel: Channel, command: Command, now: int) -> Outcome:
        raise AssertionError("the handler was asked")

    handle = hooked(never, codes.CONSUMER_SEND_MSG_BACK, Noting("a", seen, {"before_send_back": no}))
    outcome = handle(PEER, send_back(), 1)
    assert isinstance(outcome, Reply) and isinstance(outcome.response, Command)
    assert (outcome.response.code, outcome.response.remark) == (codes.SYSTEM_ERROR, "not now")
    assert seen[1:] == ["a before_send_back ('g', '', '', 70, 3) None", "a after_send_back 1", "a after_request 1"]


def test_hook_of_a_topic_sees_its_send_backs() -> None:
    seen: list[str] = []
    table: RequestTable[Channel, Outcome] = RequestTable()
    row = RawRoute(codes.CONSUMER_SEND_MSG_BACK, ConsumerSendMsgBackRequestHeader, answering(parked), Kind.SEND)
    table.add("the service", [row])
    hooks = Hooked([], lambda what, error: None)
    hooks.choose({"T": [Noting("t", seen)]})
    hooks.around(table)
    for topic in ("U", "T"):
        outcome = table.handlers[codes.CONSUMER_SEND_MSG_BACK](PEER, send_back(originTopic=topic), 1)
        assert isinstance(outcome, Parked)
        if outcome.after is not None:
            outcome.after()
    assert seen == ["t before_send_back ('g', 'T', '', 70, 3) None", "t after_send_back 0"]


def test_hooks_await_a_peer_reply_but_not_a_oneway() -> None:
    seen: list[str] = []
    command = send_request()
    command.code = codes.SEND_REPLY_MESSAGE_V2
    ask = Ask(PEER, command, 1000, lambda answer, now: reply(make_response(command, codes.SUCCESS)))
    outcome = hooked(answering(lambda c: ask), command.code, Noting("a", seen))(PEER, command, 1)
    assert isinstance(outcome, Ask) and len(seen) == 2
    outcome.then(None, 2)
    assert seen[2:] == ["a after_send 0", "a after_request 0"]
    oneway = make_request(codes.SEND_MESSAGE_V2, 1, send_request().ext(), b"x", oneway=True)
    seen.clear()
    hooked(answering(parked), oneway.code, Noting("a", seen))(PEER, oneway, 1)
    assert seen[2:] == ["a after_send 0", "a after_request 0"]


def test_a_handlers_refusal_is_seen_and_raised_on() -> None:
    seen: list[str] = []

    def full(channel: Channel, command: Command, now: int) -> Outcome:
        raise Refused(codes.SERVICE_NOT_AVAILABLE, "full")

    command = send_request()
    with pytest.raises(Refused, match="full"):
        hooked(full, command.code, Noting("a", seen))(PEER, command, 1)
    assert seen[-2:] == ["a after_send 14", "a after_request 14"]


def test_a_header_that_its_handler_will_refuse_is_no_send() -> None:
    seen: list[str] = []
    command = make_request(codes.SEND_MESSAGE_V2, 1, {"b": "T"})
    handler = answering(lambda c: reply(make_response(c, codes.SYSTEM_ERROR)))
    hooked(handler, command.code, Noting("a", seen))(PEER, command, 1)
    assert seen == ["a before_request 310", "a after_request 1"]
