"""Sending: what travels, what is retried where, what is refused, and that nothing acknowledged is lost at close."""

from __future__ import annotations

import asyncio
import re
import zlib
from dataclasses import fields
from typing import Any

import pytest

from bolide.client import (
    ArgumentError,
    Message,
    MessageQueue,
    MessageRefused,
    ResponseError,
    Retry,
    SendFailed,
    SendStatus,
    TooFast,
)
from bolide.client.instance.options import ClientOptions, ConnectionOptions
from bolide.client.messages.errors import ClientStateError, TopicNotFound
from bolide.client.messages.hooks import RpcCall
from bolide.errors import ConnectionLost, RequestTimeout
from bolide.layout.properties import parse_properties
from bolide.layout.record import decode_record
from bolide.remoting import codes
from bolide.remoting.batch import decode_batch
from bolide.remoting.command import Command, make_response
from bolide.remoting.recall_handle import encode_recall_handle
from proof.kit.waiting import PATIENCE, PROCESS_PATIENCE, until
from tests.client.patient import Producer, patient
from tests.client.scripted_broker import ScriptedBroker, refusing


async def test_a_message_travels_with_its_properties(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        message = Message("T", b"body", tags="TagA", keys=["k1", "k2"], properties={"a": "b"}, delay_level=3, flag=9)
        result = await producer.send(message)
    assert result.status is SendStatus.SEND_OK
    assert result.queue == MessageQueue("T", "broker-a", result.queue.queue_id)
    (request,) = broker.requests(codes.SEND_MESSAGE_V2)
    ext = request.ext()
    assert (ext["a"], ext["b"], ext["c"], ext["d"], ext["h"], ext["n"]) == (
        "P",
        "T",
        "TBW102",
        "4",
        "9",
        "broker-a",
    )
    assert (request.language, request.version, request.body) == (codes.PYTHON, codes.VERSION_5_5_0, b"body")
    assert parse_properties(ext["i"]) == {
        "UNIQ_KEY": result.message_id,
        "WAIT": "true",
        "TAGS": "TagA",
        "KEYS": "k1 k2",
        "DELAY": "3",
        "a": "b",
    }
    assert len(result.message_id) == 32


@pytest.mark.parametrize("method", ["send", "send_many", "send_batch", "send_oneway"])
@pytest.mark.parametrize("field", [each.name for each in fields(Message) if each.name != "value"])
async def test_each_method_rejects_a_field_of_another_type_by_name(
    method: str, field: str, broker: ScriptedBroker
) -> None:
    given: dict[str, Any] = {"topic": "T", "body": b"x", field: ["a", 5]}
    several = method in ("send_many", "send_batch")
    async with Producer("P", broker.address) as producer:
        sent = getattr(producer, method)([Message(**given)] if several else Message(**given))
        (outcome,) = await asyncio.gather(sent, return_exceptions=True)
    error = outcome[0] if method == "send_many" else outcome
    assert isinstance(error, MessageRefused), repr(error)
    rejects_delays = method == "send_batch" and field in ("delay_level", "delay", "deliver_at")
    assert error.argument == ("messages" if rejects_delays else field)


@pytest.mark.parametrize("method", ["send_many", "send_batch"])
@pytest.mark.parametrize("messages", [5, "ab", b"ab", {"a": "b"}, Message("T", b"x")])
async def test_send_rejects_one_value_as_messages(method: str, messages: Any, broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        with pytest.raises(ArgumentError, match="^messages is .*, give several in a list$"):
            await getattr(producer, method)(messages)


@pytest.mark.parametrize("topic", ["", "a b"])
async def test_queues_rejects_an_invalid_topic(topic: str, broker: ScriptedBroker) -> None:
    """The broker has a template topic, whose queues such a topic would get."""
    async with Producer("P", broker.address) as producer:
        with pytest.raises(MessageRefused, match="topic"):
            await producer.queues(topic)


async def test_round_robin_uses_every_queue_and_a_key_only_one(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        free = [await producer.send(Message("T", b"x")) for _ in range(4)]
        bound = [await producer.send(Message("T", b"x", sharding_key="key")) for _ in range(4)]
        chosen = await producer.send(Message("T", b"x"), queue=lambda queues, message: queues[1])
        fixed = await producer.send(Message("T", b"x"), queue=MessageQueue("T", "broker-a", 0))
    assert {result.queue.queue_id for result in free} == {0, 1}
    assert len({result.queue for result in bound}) == 1
    assert (chosen.queue.queue_id, fixed.queue.queue_id) == (1, 0)


async def test_large_bodies_are_compressed(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"x" * 4095))
        await producer.send(Message("T", b"x" * 4096))
    small, large = broker.requests(codes.SEND_MESSAGE_V2)
    assert (small.ext()["f"], small.body) == ("0", b"x" * 4095)
    assert int(large.ext()["f"]) == 0x301
    assert zlib.decompress(large.body) == b"x" * 4096


async def test_a_batch_is_one_request_with_an_id_for_each_message(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        result = await producer.send_batch([Message("T", b"1", tags="A"), Message("T", b"2", flag=5)])
        with pytest.raises(MessageRefused, match="one topic"):
            await producer.send_batch([Message("T", b"1"), Message("U", b"2")])
        with pytest.raises(MessageRefused, match="delay"):
            await producer.send_batch([Message("T", b"1", delay_level=1)])
        with pytest.raises(MessageRefused, match="at least one"):
            await producer.send_batch([])
    (request,) = broker.requests(codes.SEND_BATCH_MESSAGE)
    parts = decode_batch(request.body)
    assert [(part.body, part.flag) for part in parts] == [(b"1", 0), (b"2", 5)]
    ids = [parse_properties(part.properties.decode())["UNIQ_KEY"] for part in parts]
    assert ",".join(ids) == result.message_id
    assert request.ext()["m"] == "true"


async def test_a_oneway_message_asks_for_no_answer(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send_oneway(Message("T", b"x"))
        await until(lambda: broker.requests(codes.SEND_MESSAGE_V2), "the oneway message")
    assert broker.requests(codes.SEND_MESSAGE_V2)[0].is_oneway


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
async def test_a_refusal_worth_a_retry_goes_to_another_broker(code: int) -> None:
    with ScriptedBroker() as first, ScriptedBroker("broker-b") as second:
        first.others.append(second)
        first.script[codes.SEND_MESSAGE_V2] = refusing(code)
        async with Producer("P", first.address) as producer:
            for _ in range(4):
                result = await producer.send(Message("T", b"x"))
                assert result.queue.broker_name == "broker-b"
        assert len(second.requests(codes.SEND_MESSAGE_V2)) == 4


async def test_a_refusal_that_is_final_is_not_retried(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = refusing(codes.MESSAGE_ILLEGAL)
    async with Producer("P", broker.address) as producer:
        with pytest.raises(ResponseError, match="MESSAGE_ILLEGAL") as caught:
            await producer.send(Message("T", b"x"))
    assert (caught.value.code, caught.value.retriable) == (codes.MESSAGE_ILLEGAL, False)
    assert len(broker.requests(codes.SEND_MESSAGE_V2)) == 1


async def test_exhausted_retries_name_the_last_reason(
    broker: ScriptedBroker,
) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = refusing(codes.SYSTEM_BUSY)
    async with Producer("P", broker.address, retry=Retry(attempts=3)) as producer:
        for timeout in (0.5, 5.0, 50.0):  # a stalled machine gets more time
            before = len(broker.requests(codes.SEND_MESSAGE_V2))
            with pytest.raises((SendFailed, RequestTimeout)) as caught:
                await producer.send(Message("T", b"x"), timeout=timeout)
            tries = len(broker.requests(codes.SEND_MESSAGE_V2)) - before
            # Three tries follow each other, later ones wait for pauses that double; the last ones halve what is left.
            assert tries <= 14 + 2 * timeout
            if tries > 3 and isinstance(caught.value.__cause__, ResponseError):  # not a stall at the end of its time
                break
        assert re.search(r"failed \d+ times", str(caught.value))


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_stored_but_not_as_safe_as_wished_is_a_result(code: int, broker: ScriptedBroker) -> None:
    def answer(command: Command) -> Command:
        return make_response(command, code, ext={"msgId": "M", "queueId": "1", "queueOffset": "7"})

    broker.script[codes.SEND_MESSAGE_V2] = answer
    async with Producer("P", broker.address) as producer:
        result = await producer.send(Message("T", b"x"))
    assert (int(result.status), result.queue_offset) == (code, 7)


@pytest.mark.parametrize("code", [10, 11, 12])
async def test_a_message_not_as_safe_as_wished_goes_to_another_broker_if_asked_for(code: int) -> None:
    def weak(command: Command) -> Command:
        return make_response(command, code, ext={"msgId": "M", "queueId": "1", "queueOffset": "7"})

    async def outcome(producer: Producer) -> int:
        try:
            return int((await producer.send(Message("T", b"x"))).status)
        except ResponseError:
            return -1

    with ScriptedBroker() as first, ScriptedBroker("broker-b") as second:
        first.others.append(second)
        first.script[codes.SEND_MESSAGE_V2] = weak
        async with Producer("P", first.address, retry=Retry(when_not_safe=True)) as producer:
            for _ in range(4):
                result = await producer.send(Message("T", b"x"))
                assert (result.queue.broker_name, int(result.status)) == ("broker-b", 0)
            before = len(first.requests(codes.SEND_MESSAGE_V2))
            second.script[codes.SEND_MESSAGE_V2] = refusing(codes.MESSAGE_ILLEGAL)
            outcomes = [await outcome(producer) for _ in range(4)]
        assert outcomes.count(code) == len(first.requests(codes.SEND_MESSAGE_V2)) - before > 0  # stored, after all
        assert outcomes.count(-1) == 4 - outcomes.count(code) > 0


@pytest.mark.parametrize("code", [codes.SERVICE_NOT_AVAILABLE, codes.SYSTEM_BUSY])
async def test_after_a_refusal_by_a_slave_the_next_master_is_asked_for(code: int) -> None:
    with ScriptedBroker() as old, ScriptedBroker() as new:
        async with Producer("P", old.address) as producer:
            await producer.send(Message("T", b"1"))
            old.script[codes.SEND_MESSAGE_V2] = refusing(code)
            old.addresses = {"0": new.address, "1": old.address}
            await producer.send(Message("T", b"2"))
        assert [command.body for command in new.requests(codes.SEND_MESSAGE_V2)] == [b"2"]


class LooksSeldom(Producer):
    """Within a test it asks for no route again, unless it has a reason."""

    def _options_of(self, namesrv: str, connection: ConnectionOptions) -> ClientOptions:
        return patient(super()._options_of(namesrv, connection), route_interval=3600.0)


@pytest.mark.parametrize("code", [codes.SERVICE_NOT_AVAILABLE, codes.SYSTEM_BUSY])
async def test_a_bound_message_follows_the_master_of_its_queue(code: int) -> None:
    with ScriptedBroker() as old, ScriptedBroker() as new:
        async with LooksSeldom("P", old.address) as producer:
            await producer.send(Message("T", b"1"))
            old.script[codes.SEND_MESSAGE_V2] = refusing(code)
            old.addresses = {"0": new.address, "1": old.address}
            await producer.send(Message("T", b"2", sharding_key="k"))
        assert [command.body for command in new.requests(codes.SEND_MESSAGE_V2)] == [b"2"]


async def test_a_master_that_is_busy_makes_producers_ask_less_and_less_often(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, retry=Retry(attempts=3), auto_batch=False) as producer:
        await producer.send(Message("T", b"1"))
        broker.script[codes.SEND_MESSAGE_V2] = refusing(codes.SYSTEM_BUSY)
        before = len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC))
        began = asyncio.get_running_loop().time()
        sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(40)]
        await until(lambda: len(broker.requests(codes.SEND_MESSAGE_V2)) > 40 * 5, "two tries of most after a pause")
        asked = len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC)) - before
        seconds = asyncio.get_running_loop().time() - began
        del broker.script[codes.SEND_MESSAGE_V2]
        await asyncio.gather(*sends)
    assert 1 <= asked <= 6 + seconds, "six in the first second, as their pauses grow, and then one in each"


async def test_no_answer_is_a_timeout_and_the_timeout_is_shared_by_the_tries(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))  # what it costs to begin is no part of the time
        broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
        with pytest.raises((RequestTimeout, SendFailed)):
            await producer.send(Message("T", b"x"), timeout=0.2)
    assert len(broker.requests(codes.SEND_MESSAGE_V2)) <= 2  # no time is left for another; for one, if it was quick


async def test_an_unknown_topic_goes_by_the_template_and_without_one_is_an_error(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        assert (await producer.send(Message("New", b"x"))).queue.topic == "New"
    broker.topics = set()
    async with Producer("P", broker.address) as producer:
        with pytest.raises(TopicNotFound, match="Other"):
            await producer.send(Message("Other", b"x"))


async def test_more_in_flight_than_allowed_is_too_fast_and_send_waits_instead(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, max_in_flight=8, auto_batch=False) as producer:
        await producer.send(Message("T", b"x"))
        futures = [producer.submit(Message("T", b"x")) for _ in range(8)]
        with pytest.raises(TooFast, match="8 messages"):
            producer.submit(Message("T", b"x"))
        await producer.send(Message("T", b"y"))
        await asyncio.gather(*futures)
        results = await producer.send_many(Message("T", b"%d" % i) for i in range(100))
        assert all(not isinstance(result, BaseException) for result in results)
    assert len(broker.requests(codes.SEND_MESSAGE_V2)) == 10
    batches = [decode_batch(request.body) for request in broker.requests(codes.SEND_BATCH_MESSAGE)]
    assert sum(map(len, batches)) == 100 and max(map(len, batches)) <= 8


async def test_close_awaits_messages_in_flight(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"x"))
        futures = [producer.submit(Message("T", b"x")) for _ in range(50)]
    assert all(future.result().status is SendStatus.SEND_OK for future in futures)
    assert {task.get_name() for task in asyncio.all_tasks()} == {asyncio.current_task().get_name()}  # type: ignore[union-attr]  # there is a current task
    with pytest.raises(ClientStateError, match="closed"):
        await producer.send(Message("T", b"x"))
    await producer.close()


async def test_a_lost_connection_fails_over_and_heals(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"x"))
        broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
        future = producer.submit(Message("T", b"y", sharding_key="k"))
        await until(lambda: len(broker.requests(codes.SEND_MESSAGE_V2)) == 2, "the second message")
        broker.cut()
        with pytest.raises(ConnectionLost):
            await future
        del broker.script[codes.SEND_MESSAGE_V2]
        assert (await producer.send(Message("T", b"z"))).status is SendStatus.SEND_OK


async def test_a_name_server_that_is_gone_is_survived(broker: ScriptedBroker) -> None:
    async with Producer("P", f"127.0.0.1:1;{broker.address}") as producer:
        assert (await producer.send(Message("T", b"x"))).status is SendStatus.SEND_OK


async def test_the_same_group_twice_in_one_client_is_refused_and_start_and_close_repeat(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        assert await producer.start() is producer
        with pytest.raises(ClientStateError, match="started already"):
            await Producer("P", broker.address).start()
        async with Producer("Q", broker.address) as other:
            assert other._sender.instance is producer._sender.instance
    await asyncio.gather(producer.close(), producer.close())
    with pytest.raises(ClientStateError, match="not started"):
        await Producer("P", broker.address).send(Message("T", b"x"))


async def test_hooks_see_each_call_and_keys_sign_it(broker: ScriptedBroker) -> None:
    class Spy:
        def __init__(self) -> None:
            self.calls: list[tuple[str, int]] = []

        def before(self, call: RpcCall) -> None:
            self.calls.append(("before", call.code))
            call.ext["spy"] = "1"

        def after(self, call: RpcCall, answer: Command) -> None:
            self.calls.append(("after", answer.code))

    spy = Spy()
    async with Producer("P", broker.address, hooks=(spy,), access_key="ak", secret_key="sk") as producer:
        await producer.send(Message("T", b"x"))
    ext = broker.requests(codes.SEND_MESSAGE_V2)[0].ext()
    assert (ext["spy"], ext["AccessKey"], len(ext["Signature"])) == ("1", "ak", 28)
    assert spy.calls.count(("before", codes.SEND_MESSAGE_V2)) == 1
    assert ("after", codes.SUCCESS) in spy.calls


async def test_the_stored_record_is_what_was_sent(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        result = await producer.send(Message("T", "naïve ☃".encode(), properties={"näme": "wért"}))
    record = decode_record(broker.stored["T", result.queue.queue_id][0], 0)
    assert record.body.decode() == "naïve ☃"
    assert parse_properties(record.properties.decode())["näme"] == "wért"


async def test_a_single_message_where_several_are_wanted_is_refused(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        for send in (producer.send_many, producer.send_batch):
            with pytest.raises(ArgumentError, match="^messages is Message.*, give several in a list"):
                await send(Message("T", b"x"))  # type: ignore[operator]  # the mistake under test


async def test_close_rests_while_a_cancelled_send_is_in_flight(broker: ScriptedBroker) -> None:
    broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
    producer = await Producer("P", broker.address).start()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(producer.send(Message("T", b"x")), 0.01)
    loop = asyncio.get_running_loop()
    steps, call_soon = 0, loop.call_soon

    def counted(*arguments: Any, **context: Any) -> asyncio.Handle:
        nonlocal steps
        steps += 1
        return call_soon(*arguments, **context)

    loop.call_soon = counted  # type: ignore[method-assign] # counts the steps of every task
    closing = asyncio.create_task(producer.close())
    for _ in range(200):  # a step each
        await asyncio.sleep(0)
    assert not closing.done() and steps < 300
    broker.script.pop(codes.SEND_MESSAGE_V2)
    broker.cut()
    await closing


async def test_flush_waits_for_all_that_was_sent_and_raises_for_what_is_late(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.flush()
        futures = [producer.submit(Message("T", b"x")) for _ in range(20)]
        await producer.flush(PROCESS_PATIENCE)
        assert all(future.done() for future in futures)
        broker.script[codes.SEND_MESSAGE_V2] = lambda command: None
        late = producer.submit(Message("T", b"y"))
        with pytest.raises(RequestTimeout, match=r"1 of 1 sends of producer P have no result after 0\.1 s"):
            await producer.flush(0.1)
        assert not late.done()
        assert repr(producer).endswith("Producer group 'P', 1 in flight, open>")
        del broker.script[codes.SEND_MESSAGE_V2]
        broker.cut()
    with pytest.raises(ClientStateError):
        await producer.flush()


async def test_recall_keeps_to_its_timeout_without_a_name_server(broker: ScriptedBroker) -> None:
    handle = encode_recall_handle("T", "elsewhere", 1, "U")
    broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = lambda command: None
    async with asyncio.timeout(PATIENCE), Producer("P", broker.address) as producer:
        with pytest.raises(RequestTimeout, match="the route of topic T was not found within the time allowed"):
            await producer.recall("T", handle, timeout=0.1)


async def test_recall_keeps_to_its_timeout_while_it_connects(broker: ScriptedBroker) -> None:
    handle = encode_recall_handle("T", "broker-a", 1, "U")
    namesrv = broker.address.replace("127.0.0.1", "localhost")  # so that the broker has a connection of its own
    broker.script[codes.HEART_BEAT] = lambda command: None
    async with asyncio.timeout(PATIENCE), Producer("P", namesrv) as producer:
        with pytest.raises(RequestTimeout, match="no connection to"):
            await producer.recall("T", handle, timeout=0.1)
