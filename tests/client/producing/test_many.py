"""`send_many`: what travels together, and that each message has the outcome it would have alone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.client import (
    Message,
    MessageQueue,
    MessageRefused,
    ResponseError,
    Retry,
    SendResult,
    SendStatus,
    TopicNotFound,
)
from bolide.client.messages.hooks import RpcCall
from bolide.client.messages.send_result import results_of
from bolide.client.producing.accumulator import MOST, MOST_BYTES
from bolide.client.tracing.interceptor import Interceptor, SendCall
from bolide.errors import RequestTimeout
from bolide.layout.record import Record, decode_records
from bolide.remoting import codes
from bolide.remoting.batch import decode_batch
from bolide.remoting.command import Command, make_response
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Producer
from tests.client.scripted_broker import ScriptedBroker, refusing

ALLOWED_S = 3.0
"""For sends that nobody answers: more than a machine stands still between two lines."""
MESSAGES = st.builds(
    Message,
    st.just("T"),
    st.binary(min_size=1, max_size=30),
    sharding_key=st.sampled_from(["", "", "", "k1", "k2", "k3"]),
    flag=st.integers(0, 3),
    wait_stored=st.sampled_from([True, True, True, False]),
    delay_level=st.sampled_from([0, 0, 0, 0, 2]),
    tags=st.sampled_from(["", "A"]),
)


def stored(broker: ScriptedBroker, result: SendResult) -> Record:
    (record,) = decode_records(broker.stored[result.queue.topic, result.queue.queue_id][result.queue_offset])
    return record


@settings(max_examples=60, deadline=None)
@given(st.lists(MESSAGES, min_size=1, max_size=60), st.integers(1, 64))
def test_each_result_names_its_own_message_and_queues_keep_their_order(messages: list[Message], at_once: int) -> None:
    async def main(broker: ScriptedBroker) -> list[SendResult | BaseException]:
        async with Producer("P", broker.address, max_in_flight=at_once, compress_above=25) as producer:
            return await producer.send_many(messages)

    with ScriptedBroker(queues=3) as broker:
        outcomes = asyncio.run(main(broker))
        assert len(outcomes) == len(messages)
        places: dict[MessageQueue, list[int]] = defaultdict(list)
        by_key: dict[str, set[MessageQueue]] = defaultdict(set)
        for message, outcome in zip(messages, outcomes, strict=True):
            assert isinstance(outcome, SendResult)
            record = stored(broker, outcome)
            assert record.body == message.body or record.sys_flag & 1
            assert f"UNIQ_KEY\x01{outcome.message_id}\x02".encode() in record.properties
            assert int(outcome.offset_message_id[16:], 16) == record.physical_offset
            assert (b"DELAY" in record.properties) == bool(message.delay_level)
            places[outcome.queue].append(outcome.queue_offset)
            if message.sharding_key:
                by_key[message.sharding_key].add(outcome.queue)
        for offsets in places.values():
            assert offsets == list(range(len(offsets)))
        assert all(len(queues) == 1 for queues in by_key.values())
        unbound = [o.queue for m, o in zip(messages, outcomes, strict=True) if not m.sharding_key]  # type: ignore[union-attr]  # asserted above
        shares = [unbound.count(queue) for queue in set(unbound)]
        assert not shares or max(shares) - (min(shares) if len(shares) == 3 else 0) <= 1


async def test_messages_travel_together_within_the_limits_of_a_batch(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, compress_above=10**6) as producer:
        await producer.send_many([Message("T", b"x") for _ in range(2 * MOST + 2)])
        await producer.send_many([Message("T", b"y" * 100_000) for _ in range(12)])
    requests = broker.requests(codes.SEND_BATCH_MESSAGE)
    sizes = [len(decode_batch(request.body)) for request in requests]
    assert sizes[:2] == [MOST, MOST]  # of one chunk; the two messages more go by themselves
    assert sizes[2:] == [2] * 6
    assert all(len(request.body) <= MOST_BYTES for request in requests)
    assert len(broker.requests(codes.SEND_MESSAGE_V2)) == 2
    assert all(request.ext()["m"] == "true" for request in requests)


async def test_a_batch_refused_for_what_is_in_it_is_sent_one_by_one(broker: ScriptedBroker) -> None:
    def refuse_one(command: Command) -> Command:
        if command.body == b"3":
            return make_response(command, codes.MESSAGE_ILLEGAL, "not this one")
        return broker.on_send_message_v2(command)

    broker.script = {codes.SEND_BATCH_MESSAGE: refusing(codes.MESSAGE_ILLEGAL), codes.SEND_MESSAGE_V2: refuse_one}
    async with Producer("P", broker.address) as producer:
        outcomes = await producer.send_many([Message("T", b"%d" % number) for number in range(8)])
    assert [isinstance(outcome, SendResult) for outcome in outcomes] == [True] * 3 + [False] + [True] * 4
    assert isinstance(outcomes[3], ResponseError) and "not this one" in str(outcomes[3])


async def test_the_error_of_a_batch_is_that_of_each_message_in_it(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_BATCH_MESSAGE] = lambda command: (
        make_response(command, codes.NO_PERMISSION, "read only")
        if command.ext()["e"] == "0"
        else broker.on_send_batch_message(command)
    )
    async with Producer("P", broker.address, retry=Retry(attempts=1)) as producer:
        queues = await producer.queues("T")
        outcomes = await producer.send_many(
            [Message("T", b"%d" % number) for number in range(8)],
            queue=lambda given, message: queues[int(message.body) % 2],
        )
    assert [isinstance(outcome, SendResult) for outcome in outcomes] == [False, True] * 4
    assert not broker.requests(codes.SEND_MESSAGE_V2)


async def test_unsendable_message_has_its_error_in_the_results(broker: ScriptedBroker) -> None:
    broker.topics.remove("TBW102")
    async with Producer("P", broker.address) as producer:
        outcomes = await producer.send_many(
            [
                Message("T", b"1"),
                Message("T", b""),
                Message("T", b"2", properties={"UNIQ_KEY": "x"}),
                Message("Unknown", b"3"),
                Message("T", b"4"),
            ]
        )
    kinds = [SendResult, MessageRefused, MessageRefused, TopicNotFound, SendResult]
    assert [type(outcome) for outcome in outcomes] == kinds


async def test_interceptors_see_each_message_with_a_result_of_its_own(broker: ScriptedBroker) -> None:
    seen: dict[bytes, SendCall] = {}

    class Notes(Interceptor):
        def after_send(self, call: SendCall) -> None:
            assert call.message.body not in seen
            seen[call.message.body] = call

    async with Producer("P", broker.address, interceptors=(Notes(),)) as producer:
        outcomes = await producer.send_many([Message("T", body) for body in (b"1", b"2", b"", b"4", b"5")])
    address = broker.address
    assert broker.requests(codes.SEND_BATCH_MESSAGE)
    for body, outcome in zip((b"1", b"2", b"4", b"5"), outcomes[:2] + outcomes[3:], strict=True):
        assert isinstance(outcome, SendResult)
        call = seen[body]
        assert (call.result, call.message_id, call.error) == (outcome, outcome.message_id, None)
        assert (call.broker_address, call.body_length) == (address, 1)
    assert seen[b""].error is outcomes[2]


async def test_a_cancelled_call_leaves_nothing_in_flight(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_BATCH_MESSAGE] = lambda command: None
    async with Producer("P", broker.address, timeout=ALLOWED_S) as producer:
        await producer.send(Message("T", b"first"), timeout=PATIENCE)
        sending = producer._sender.loop.create_task(producer.send_many([Message("T", b"x") for _ in range(100)]))
        await until(lambda: len(broker.requests(codes.SEND_BATCH_MESSAGE)) == 2, "both batches")
        assert producer.in_flight == 100
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await until(lambda: producer.in_flight == 0, "the end of the time allowed")
        await producer.send(Message("T", b"y"), timeout=PATIENCE)


async def test_interceptors_see_the_end_of_what_is_cancelled_sent_or_not(broker: ScriptedBroker) -> None:
    """Each of them has its outcome, which `before_send` was promised."""
    begun: list[bytes] = []
    ended: dict[bytes, BaseException | None] = {}

    class Notes(Interceptor):
        def before_send(self, call: SendCall) -> None:
            begun.append(call.message.body)

        def after_send(self, call: SendCall) -> None:
            assert call.message.body not in ended
            ended[call.message.body] = call.error

    limits: Any = {"timeout": ALLOWED_S, "max_in_flight": 60}
    async with Producer("P", broker.address, interceptors=(Notes(),), **limits) as producer:
        queues = await producer.queues("T")
        await producer.send(Message("T", b"first"), queue=queues[0], timeout=PATIENCE)
        begun.clear()
        ended.clear()
        broker.script = dict.fromkeys((codes.SEND_BATCH_MESSAGE, codes.SEND_MESSAGE_V2), lambda command: None)
        alone = producer._sender.loop.create_task(producer.send(Message("T", b"alone"), queue=queues[0]))
        many = [Message("T", b"%d" % number, delay_level=number % 2) for number in range(200)]
        sending = producer._sender.loop.create_task(producer.send_many(many, queue=queues[0]))
        await until(lambda: producer.in_flight == 60, "no room for more")
        assert len(begun) == 61
        sending.cancel()
        alone.cancel()
        await asyncio.wait([sending, alone])
        await until(lambda: len(ended) == 61, "the end of each")
    assert set(ended) == set(begun)
    assert {type(error) for error in ended.values()} == {asyncio.CancelledError}


async def test_cancelled_call_is_not_resent(broker: ScriptedBroker) -> None:
    calls: list[asyncio.Task[list[SendResult | BaseException]]] = []

    class GivesUp:
        def before(self, call: RpcCall) -> None:
            return None

        def after(self, call: RpcCall, answer: Command) -> None:
            if call.code == codes.SEND_BATCH_MESSAGE:
                calls[0].cancel()

    broker.script[codes.SEND_BATCH_MESSAGE] = refusing(codes.MESSAGE_ILLEGAL)
    async with Producer("P", broker.address, hooks=(GivesUp(),)) as producer:
        queue = (await producer.queues("T"))[0]
        messages = [Message("T", b"x") for _ in range(3)]
        calls.append(producer._sender.loop.create_task(producer.send_many(messages, queue=queue)))
        await asyncio.wait(calls)
        assert calls[0].cancelled()
        await producer.send(Message("T", b"later"), queue=queue)
    assert [request.body for request in broker.requests(codes.SEND_MESSAGE_V2)] == [b"later"]


def test_a_queue_that_keeps_batches_whole_has_one_id_for_all() -> None:
    result = SendResult(SendStatus.SEND_OK, "a,b", "ONE", MessageQueue("T", "b", 1), 7)
    split = results_of(result, ["a", "b"])
    assert [(one.message_id, one.offset_message_id, one.queue_offset) for one in split] == [
        ("a", "ONE", 7),
        ("b", "ONE", 8),
    ]


async def test_a_look_up_that_gets_no_answer_takes_the_time_of_its_messages_only(broker: ScriptedBroker) -> None:
    broker.topics.update(("U", "V"))
    async with asyncio.timeout(PATIENCE), Producer("P", broker.address, timeout=0.2) as producer:
        await producer.queues("T")
        broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = lambda command: None
        began = producer._sender.loop.time()
        outcomes = await producer.send_many([Message(topic, b"x") for topic in ("U", "T", "V", "U")])
        seconds = producer._sender.loop.time() - began
    assert [type(outcome) for outcome in outcomes] == [RequestTimeout, SendResult, RequestTimeout, RequestTimeout]
    assert seconds < ALLOWED_S  # the default limit of a request to a name server is 3 s for each topic


async def test_the_time_of_a_look_up_is_part_of_the_time_of_a_message(broker: ScriptedBroker) -> None:
    broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = lambda command: None
    for timeout in (0.5, 5.0, 20.0):  # a stalled machine gets more time
        async with asyncio.timeout(PATIENCE), Producer("P", broker.address, timeout=timeout) as producer:
            began = producer._sender.loop.time()
            (outcome,) = await producer.send_many([Message("T", b"x")])
            seconds = producer._sender.loop.time() - began
        assert isinstance(outcome, RequestTimeout)
        if seconds < 1.5 * timeout:
            return
    raise AssertionError("the message had a second limit after the look-up")
