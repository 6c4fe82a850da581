"""Sends that share a request: what travels together, and that each message has the outcome it would have alone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bolide.client import Message, MessageQueue, RequestTimeout, ResponseError, Retry, SendFailed, SendResult
from bolide.client.messages.hooks import AclHook, RpcCall, RpcHook, UnitHook
from bolide.client.producing.accumulator import ALONE, MAX_WAIT, MOST, MOST_BYTES
from bolide.client.tracing.interceptor import Interceptor, SendCall
from bolide.errors import BolideError, ConnectionLost
from bolide.layout.properties import parse_properties_bytes
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from bolide.remoting.signature import sign_request
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Producer
from tests.client.producing.holding_broker import SENDS, HoldingBroker, batches, record_of, texts
from tests.client.scripted_broker import Client, ScriptedBroker, refusing

ALLOWED_S = 3.0
"""For sends that nobody answers: more than a machine stands still between two lines."""


async def test_messages_of_one_turn_travel_together(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        results = await asyncio.gather(*(producer.send(message) for message in texts(5)))
    assert batches(broker) == [[b"m0", b"m1", b"m2", b"m3", b"m4"]]
    assert [result.queue_offset for result in results] == list(
        range(results[0].queue_offset, results[0].queue_offset + 5)
    )
    for number, result in enumerate(results):
        record = record_of(broker, result)
        assert record.body == f"m{number}".encode()
        assert parse_properties_bytes(record.properties)["UNIQ_KEY"] == result.message_id
        assert int(result.offset_message_id[16:], 16) == record.physical_offset
        assert result.region_id == "R"


async def test_a_message_is_sent_alone_while_nothing_is_in_flight(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        for message in texts(5):
            await producer.send(message)
    assert not broker.requests(codes.SEND_BATCH_MESSAGE)


async def test_messages_that_arrive_while_a_request_is_in_flight_follow_its_answer() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            sends = [asyncio.ensure_future(producer.send(Message("T", b"in flight", sharding_key="k")))]
            await until(lambda: bool(broker.unsent), "a request in flight")
            for message in texts(3):
                sends.append(asyncio.ensure_future(producer.send(message)))
                await asyncio.sleep(0)
            broker.let_go()
            await asyncio.gather(*sends)
        assert [body for batch in batches(broker) for body in batch] == [b"m0", b"m1", b"m2"]


async def test_messages_do_not_wait_long_for_a_late_answer() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            sends = [asyncio.ensure_future(producer.send(Message("T", b"in flight", sharding_key="k")))]
            await until(lambda: len(broker.unsent) == 1, "a request in flight")
            sends += [asyncio.ensure_future(producer.send(message)) for message in texts(3)]
            await until(lambda: len(broker.unsent) == 2, f"a request after {MAX_WAIT} s")
            assert batches(broker) == [[b"m0", b"m1", b"m2"]]
            broker.let_go()
            await asyncio.gather(*sends)


async def test_ordered_messages_do_not_overtake_a_batch_that_may_be_rejected() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            sends = [asyncio.ensure_future(producer.send(message)) for message in texts(2)]
            await until(lambda: len(broker.unsent) == 1, "the batch")
            sends += [asyncio.ensure_future(producer.send(message)) for message in texts(2, "n")]
            loop = asyncio.get_running_loop()
            since = loop.time()
            await until(lambda: loop.time() > since + 3 * MAX_WAIT, "three times the usual wait")
            assert len(broker.unsent) == 1
            broker.let_go()
            await asyncio.gather(*sends)
        assert batches(broker) == [[b"m0", b"m1"], [b"n0", b"n1"]]


@pytest.mark.parametrize("off", ["option", "hook"])
async def test_messages_travel_alone_if_the_option_is_off_or_a_hook_sees_requests(
    broker: ScriptedBroker, off: str
) -> None:
    class Nothing(RpcHook):
        def before(self, call: RpcCall) -> None: ...

    more: dict[str, Any] = {"auto_batch": False} if off == "option" else {"hooks": (Nothing(),)}
    async with Producer("P", broker.address, **more) as producer:
        await producer.send(Message("T", b"first"))
        await asyncio.gather(*(producer.send(message) for message in texts(5)))
    assert not broker.requests(codes.SEND_BATCH_MESSAGE)
    assert len(broker.requests(codes.SEND_MESSAGE_V2)) == 6


async def test_a_message_that_no_batch_takes_does_not_overtake_others(broker: ScriptedBroker) -> None:
    alone = [
        Message("T", b"late", delay_level=1, sharding_key="k"),
        Message("T", b"packed" * 2000, sharding_key="k"),
        Message("T", b"light", light_queues=["%LMQ%a"], sharding_key="k"),
    ]
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first", sharding_key="k"))
        for message in alone:
            two = [Message("T", b"a", sharding_key="k"), Message("T", b"b", sharding_key="k")]
            results = await asyncio.gather(
                *(producer.send(each) for each in [*two, message, Message("T", b"c", sharding_key="k")])
            )
            offsets = [result.queue_offset for result in results]
            assert offsets == list(range(offsets[0], offsets[0] + 4))
    assert batches(broker) == [[b"a", b"b"]] * 3


async def test_a_batch_has_one_wait_stored_and_keeps_its_limits(broker: ScriptedBroker) -> None:
    mixed = [Message("T", str(n).encode(), wait_stored=n % 4 < 2, sharding_key="k") for n in range(8)]
    async with Producer("P", broker.address, compress_above=10**6) as producer:
        await producer.send(Message("T", b"first"))
        await asyncio.gather(*(producer.send(message) for message in mixed))
        assert batches(broker) == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"], [b"6", b"7"]]
        waits = [each.ext()["i"] for each in broker.requests(codes.SEND_BATCH_MESSAGE)]
        assert waits == ["WAIT\x01true\x02", "WAIT\x01false\x02"] * 2
        await asyncio.gather(*(producer.send(Message("T", b"x" * 60_000, sharding_key="k")) for _ in range(10)))
        await asyncio.gather(*(producer.send(message) for message in texts(MOST + 10)))
    assert all(len(each.body) <= MOST_BYTES for each in broker.requests(codes.SEND_BATCH_MESSAGE))
    assert [len(each) for each in batches(broker)[4:]] == [4, 4, 2, MOST, 10]


async def test_a_cancelled_send_does_not_disturb_its_neighbours(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        futures = [producer.submit(message) for message in texts(5)]
        futures[2].cancel()
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert producer.in_flight == 0
    assert [type(each) for each in results] == [SendResult, SendResult, asyncio.CancelledError, SendResult, SendResult]
    assert batches(broker) == [[b"m0", b"m1", b"m3", b"m4"]]


async def test_a_lone_send_that_is_cancelled_before_it_leaves_is_not_sent(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        producer.submit(Message("T", b"cancelled")).cancel()
        await asyncio.sleep(0)
        assert producer.in_flight == 0
        await producer.send(Message("T", b"next"))
    assert [each.body for each in broker.requests(codes.SEND_MESSAGE_V2)] == [b"first", b"next"]


async def test_messages_do_not_overtake_a_lone_send_of_the_same_turn(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first", sharding_key="k"))
        alone = Message("T", b"m0", sharding_key="k", delay=1)
        results = await asyncio.gather(*(producer.send(message) for message in [alone, *texts(5)[1:]]))
        assert producer.in_flight == 0
    assert [len(each.body) for each in broker.requests(codes.SEND_MESSAGE_V2)] == [5, 2]
    assert [result.queue_offset for result in results] == [1, 2, 3, 4, 5]


async def test_a_send_cancelled_in_flight_does_not_disturb_its_neighbours() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            futures = [producer.submit(message) for message in texts(3)]
            await until(lambda: bool(broker.unsent), "a request in flight")
            futures[0].cancel()
            broker.let_go()
            results = await asyncio.gather(*futures, return_exceptions=True)
            assert [getattr(each, "queue_offset", None) for each in results] == [None, 2, 3]
            assert producer.in_flight == 0


async def test_each_message_keeps_its_own_timeout() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, retry=Retry(attempts=1)) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            short = producer.submit(Message("T", b"short", sharding_key="k"), timeout=0.2)
            long = producer.submit(Message("T", b"long", sharding_key="k"), timeout=PATIENCE)
            with pytest.raises(RequestTimeout):
                await short
            assert not long.done()
            broker.let_go()
            assert (await long).queue_offset == 2


async def test_a_message_that_waits_for_a_request_keeps_its_timeout() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, retry=Retry(attempts=1)) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            first = producer.submit(Message("T", b"in flight", sharding_key="k"))
            await until(lambda: bool(broker.unsent), "a request in flight")
            with pytest.raises(RequestTimeout):
                await producer.send(Message("T", b"short", sharding_key="k"), timeout=MAX_WAIT / 10)
            broker.let_go()
            await first


async def test_a_refused_batch_is_sent_again_one_by_one_and_so_are_the_next_messages(broker: ScriptedBroker) -> None:
    def refuse_one(command: Command) -> Command:
        if command.body == b"m1":
            return make_response(command, codes.MESSAGE_ILLEGAL, "not this one")
        return broker.on_send_message_v2(command)

    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        broker.script[codes.SEND_BATCH_MESSAGE] = refusing(codes.MESSAGE_ILLEGAL)
        broker.script[codes.SEND_MESSAGE_V2] = refuse_one
        outcomes = await asyncio.gather(*(producer.send(each) for each in texts(3)), return_exceptions=True)
        assert isinstance(outcomes[1], ResponseError)
        assert [record_of(broker, each).body for each in outcomes if isinstance(each, SendResult)] == [b"m0", b"m2"]
        await asyncio.gather(*(producer.send(message) for message in texts(3, "n")))
    assert len(broker.requests(codes.SEND_BATCH_MESSAGE)) == 1, f"another batch within {ALONE} s"


async def test_each_message_of_a_batch_is_tried_again_elsewhere() -> None:
    with ScriptedBroker("broker-a", queues=1) as one, ScriptedBroker("broker-b", queues=1) as other:
        one.others, other.topics = [other], {"T"}
        async with Producer("P", one.address) as producer:
            for _ in range(2):
                await producer.send(Message("T", b"first"))
            one.script[codes.SEND_BATCH_MESSAGE] = refusing(codes.SYSTEM_BUSY)
            one.script[codes.SEND_MESSAGE_V2] = refusing(codes.SYSTEM_BUSY)
            results = await asyncio.gather(*(producer.send(Message("T", str(n).encode())) for n in range(6)))
    assert {result.queue.broker_name for result in results} == {"broker-b"}
    assert sorted(record_of(other, result).body for result in results) == [str(n).encode() for n in range(6)]


async def test_a_failed_batch_fails_each_message_with_an_error_of_its_own(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, retry=Retry(attempts=1)) as producer:
        await producer.send(Message("T", b"first"))
        broker.script[codes.SEND_BATCH_MESSAGE] = refusing(codes.NO_PERMISSION, "read only")
        outcomes = await asyncio.gather(*(producer.send(each) for each in texts(3)), return_exceptions=True)
        assert producer.in_flight == 0
    assert [str(each) for each in outcomes] == [str(outcomes[0])] * 3
    assert "read only" in str(outcomes[0])
    assert len({id(each) for each in outcomes}) == 3


async def test_a_lost_connection_fails_each_message_with_an_error_of_its_own() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, retry=Retry(attempts=1)) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            futures = [producer.submit(message) for message in texts(3)]
            await until(lambda: bool(broker.unsent), "the batch")
            broker.cut()
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(each) for each in outcomes] == [ConnectionLost] * 3
    assert len({id(each) for each in outcomes}) == 3


async def test_interceptors_see_each_message(broker: ScriptedBroker) -> None:
    seen: list[tuple[bytes, int]] = []

    class See(Interceptor):
        def after_send(self, call: SendCall) -> None:
            assert call.result is not None
            assert call.message_id == call.result.message_id
            seen.append((call.message.body, call.result.queue_offset))

    async with Producer("P", broker.address, interceptors=(See(),)) as producer:
        await producer.send(Message("T", b"first", sharding_key="k"))
        await asyncio.gather(*(producer.send(message) for message in texts(3)))
    assert seen == [(b"first", 0), (b"m0", 1), (b"m1", 2), (b"m2", 3)]


async def test_a_batch_contains_what_a_broker_adds_to_single_messages(broker: ScriptedBroker) -> None:
    def off(command: Command) -> Command:
        answer = broker.on_send_message_v2(command)
        answer.ext().update({"MSG_REGION": "north", "TRACE_ON": "false"})
        return answer

    broker.script[codes.SEND_MESSAGE_V2] = off
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        results = await asyncio.gather(*(producer.send(message) for message in texts(2)))
    properties = [parse_properties_bytes(record_of(broker, result).properties) for result in results]
    added = [{name: each[name] for name in ("MSG_REGION", "TRACE_ON", "CLUSTER")} for each in properties]
    assert added == [{"MSG_REGION": "north", "TRACE_ON": "false", "CLUSTER": "C"}] * 2


MESSAGES = st.builds(
    Message,
    st.just("T"),
    st.integers(0, 10**9).map(lambda number: str(number).encode()),
    sharding_key=st.sampled_from(["", "", "k1", "k2", "k3"]),
    wait_stored=st.sampled_from([True, True, True, False]),
    delay_level=st.sampled_from([0, 0, 0, 0, 0, 2]),
    keys=st.sampled_from(["", "a", "b"]),
)
FAULTS = ("store", "store", "store", "store", "cut before", "cut after", "busy", "illegal")


class FaultyBroker(ScriptedBroker):
    """Handles each send as a list of faults says: it may refuse, or cut the connection before or after it stores."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__(queues=2)
        self._faults = iter(faults)

    def handle(self, client: Client, command: Command) -> Command | None:
        if command.code not in SENDS:
            return super().handle(client, command)
        fault = next(self._faults, "store")
        if fault == "busy":
            return make_response(command, codes.SYSTEM_BUSY, "busy")
        if fault == "illegal" and command.code == codes.SEND_BATCH_MESSAGE:
            return make_response(command, codes.MESSAGE_ILLEGAL, "no")
        if client.transport.is_closing():  # what follows a cut in the same read is lost
            return None
        answer = super().handle(client, command) if fault != "cut before" else None
        if fault.startswith("cut"):
            client.transport.abort()
            return None
        return answer


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(MESSAGES, min_size=1, max_size=12), min_size=1, max_size=8),
    st.lists(st.sampled_from(FAULTS), max_size=12),
)
def test_broker_keeps_acknowledged_messages_and_repeats_only_unanswered_ones(
    turns: list[list[Message]], faults: list[str]
) -> None:
    async def main(broker: ScriptedBroker) -> list[tuple[Message, Any]]:
        async with Producer("P", broker.address, timeout=PATIENCE) as producer:
            await producer.send(Message("T", b"first"))
            futures = []
            for messages in turns:
                futures += [(message, producer.submit(message)) for message in messages]
                await asyncio.sleep(0)
            outcomes = await asyncio.gather(*(future for _, future in futures), return_exceptions=True)
            assert producer.in_flight == 0
            return [(message, outcome) for (message, _), outcome in zip(futures, outcomes, strict=True)]

    with FaultyBroker(["store", *faults]) as broker:
        outcomes = asyncio.run(main(broker))
        copies: dict[str, int] = defaultdict(int)
        for queue in broker.stored.values():
            for (record,) in map(decode_records, queue):
                copies[parse_properties_bytes(record.properties)["UNIQ_KEY"]] += 1
        by_key: dict[str, list[tuple[MessageQueue, int]]] = defaultdict(list)
        for message, outcome in outcomes:
            if isinstance(outcome, SendResult):
                record = record_of(broker, outcome)
                assert record.body == message.body
                assert parse_properties_bytes(record.properties)["UNIQ_KEY"] == outcome.message_id
                if message.sharding_key:
                    by_key[message.sharding_key].append((outcome.queue, outcome.queue_offset))
                    assert copies[outcome.message_id] == 1
            else:
                assert isinstance(outcome, BolideError)
                assert isinstance(outcome, ConnectionLost | ResponseError | SendFailed)
        for places in by_key.values():
            assert len({queue for queue, _ in places}) == 1
            assert [offset for _, offset in places] == sorted(offset for _, offset in places)
        lost_answers = faults.count("cut after")
        assert all(count <= 1 + lost_answers for count in copies.values())


@pytest.mark.parametrize("more", [{"hooks": (AclHook("user", "secret"),)}, {"binary_header": True}, {"unit": True}])
async def test_a_shared_request_is_signed_or_encoded_like_a_single_one(
    broker: ScriptedBroker, more: dict[str, Any]
) -> None:
    if "unit" in more:
        more = {"hooks": (UnitHook(),)}
    async with Producer("P", broker.address, **more) as producer:
        await producer.send(Message("T", b"first", sharding_key="k"))
        results = await asyncio.gather(*(producer.send(message) for message in texts(3)))
    assert batches(broker) == [[b"m0", b"m1", b"m2"]]
    assert [record_of(broker, result).body for result in results] == [b"m0", b"m1", b"m2"]
    (single,), (shared,) = (broker.requests(code) for code in SENDS)
    assert shared.serialize_type == single.serialize_type
    assert shared.ext().keys() == single.ext().keys()
    assert shared.ext()["k"] == single.ext()["k"]
    if "Signature" in single.ext():
        own = {**shared.ext()}
        signature = own.pop("Signature")
        del own["AccessKey"]
        sign_request(own, shared.body, "user", "secret", code=shared.code)
        assert own["Signature"] == signature
