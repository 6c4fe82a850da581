"""Sends that share a request while one of them is invalid, the broker is silent, or the producer closes."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import Message, MessageRefused, RequestTimeout, Retry, SendResult
from bolide.client.producing.accumulator import MAX_WAIT, MOST
from bolide.client.producing.lane import MAX_SPREAD
from bolide.client.tracing.interceptor import Interceptor
from bolide.errors import ConnectionLost, PeerError
from bolide.remoting import codes
from bolide.remoting.batch import decode_batch
from bolide.remoting.command import Command
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Producer
from tests.client.producing.holding_broker import HoldingBroker, batches, texts
from tests.client.scripted_broker import ScriptedBroker


async def test_text_that_cannot_be_encoded_fails_only_its_own_message(broker: ScriptedBroker) -> None:
    bad = Message("T", b"bad", properties={"a": "\ud800"}, sharding_key="k")
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        outcomes = await asyncio.gather(
            *(producer.send(each) for each in [*texts(2), bad, *texts(2, "n")]), return_exceptions=True
        )
        assert producer.in_flight == 0
    assert [type(each) for each in outcomes] == [SendResult, SendResult, MessageRefused, SendResult, SendResult]


async def test_messages_beyond_a_full_batch_do_not_wait_long_for_a_late_answer() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            sends = [asyncio.ensure_future(producer.send(Message("T", b"x"))) for _ in range(MOST + 10)]
            await until(lambda: len(broker.unsent) == 2, f"a second batch after {MAX_WAIT} s")
            assert [len(each) for each in batches(broker)] == [MOST, 10]
            broker.let_go()
            await asyncio.gather(*sends)


async def test_messages_beyond_a_full_batch_keep_their_timeout() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, retry=Retry(attempts=1)) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            long = [producer.submit(message, timeout=PATIENCE) for message in texts(MOST)]
            short = producer.submit(Message("T", b"short", sharding_key="k"), timeout=0.1)
            await until(short.done, "the end of a short timeout")
            with pytest.raises(RequestTimeout):
                await short
            assert not any(each.done() for each in long)
            broker.let_go()
            await asyncio.gather(*long)


async def test_a_cancelled_message_beyond_others_is_not_sent(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        futures = [producer.submit(message) for message in texts(MOST + 10)]
        for future in [*futures[:10], futures[MOST + 5]]:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
    sent = [body for batch in batches(broker) for body in batch]
    assert sent == [message.body for number, message in enumerate(texts(MOST + 10)) if 10 <= number != MOST + 5]


@pytest.mark.parametrize("auto_batch", [True, False])
async def test_sends_left_by_a_cancelled_close_end(auto_batch: bool) -> None:
    with HoldingBroker() as broker:
        producer = Producer("P", broker.address, auto_batch=auto_batch)
        await producer.start()
        await producer.send(Message("T", b"first"))
        broker.holds = True
        futures = [producer.submit(message, timeout=PATIENCE) for message in [*texts(3), Message("T", b"free")]]
        await until(lambda: len(broker.unsent) >= 1, "a request in flight")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        await until(lambda: all(future.done() for future in futures), "the end of each send")
        assert producer.in_flight == 0
        await asyncio.gather(*futures, return_exceptions=True)


async def test_a_cancelled_send_is_not_retried(broker: ScriptedBroker) -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, auto_batch=False) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            future = producer.submit(Message("T", b"cancelled"))
            await until(lambda: bool(broker.unsent), "a request in flight")
            future.cancel()
            broker.cut()
            await until(lambda: producer.in_flight == 0, "the end of the send")
    assert [each.body for each in broker.requests(codes.SEND_MESSAGE_V2)] == [b"first", b"cancelled"]


async def test_many_sends_left_by_a_cancelled_close_end() -> None:
    with HoldingBroker() as broker:
        producer = Producer("P", broker.address, interceptors=(Interceptor(),))
        await producer.start()
        await producer.send(Message("T", b"first"))
        broker.holds = True
        many = asyncio.ensure_future(producer.send_many(texts(3)))
        await until(lambda: bool(broker.unsent), "the batch")
        closing = asyncio.ensure_future(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        async with asyncio.timeout(PATIENCE):
            outcomes = await many
    assert [type(each) for each in outcomes] == [ConnectionLost] * 3


async def test_lists_of_the_caller_do_not_wait_for_a_response() -> None:
    """No later request can contain a list together with other messages."""
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            sends = [asyncio.ensure_future(producer.send(Message("T", b"in flight")))]
            await until(lambda: bool(broker.unsent), "a request in flight")
            pair = [Message("T", b"a"), Message("T", b"b")]
            sends += [asyncio.ensure_future(producer.send_batch(pair)) for _ in "12"]
            sends += [asyncio.ensure_future(producer.send(Message("T", body))) for body in (b"x" * 5000, b"y")]
            accumulator = producer._sender.accumulator
            assert accumulator is not None
            for _ in range(4):
                await asyncio.sleep(0)
            assert accumulator.in_flight == 4, "only the last message waits"
            broker.let_go()
            await asyncio.gather(*sends)


async def test_a_compressed_message_does_not_overtake_an_ordered_batch() -> None:
    """A broker may reject the batch, and the producer then resends its messages."""
    with HoldingBroker() as broker:
        async with Producer("P", broker.address) as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            futures = [producer.submit(message) for message in texts(2)]
            await until(lambda: len(broker.unsent) == 1, "the batch")
            futures.append(producer.submit(Message("T", b"x" * 5000, sharding_key="k")))
            accumulator = producer._sender.accumulator
            assert accumulator is not None
            for _ in range(4):
                await asyncio.sleep(0)
            assert accumulator.in_flight == 1
            broker.let_go()
            assert [result.queue_offset for result in await asyncio.gather(*futures)] == [1, 2, 3]


async def test_deadlines_of_a_request_are_close_together(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        times = [PATIENCE + part * MAX_SPREAD for part in (0, 0.9, -0.9, -0.8)]
        futures = [producer.submit(each, timeout=left) for each, left in zip(texts(4), times, strict=True)]
        await asyncio.gather(*futures)
    assert batches(broker) == [[b"m0", b"m1"], [b"m2", b"m3"]]


async def test_numbers_of_numpy_are_flags(broker: ScriptedBroker) -> None:
    numpy = pytest.importorskip("numpy")
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        messages = [Message("T", b"x", flag=numpy.int64(number), sharding_key="k") for number in range(3)]
        await asyncio.gather(*(producer.send(message) for message in messages))
        assert all(isinstance(each, SendResult) for each in await producer.send_many(messages))
        await producer.send_batch(messages)
    sent = broker.requests(codes.SEND_BATCH_MESSAGE)
    assert [[part.flag for part in decode_batch(each.body)] for each in sent] == [[0, 1, 2]] * 3


async def test_an_answer_for_a_part_of_a_batch_fails_its_messages(broker: ScriptedBroker) -> None:
    def answer_two(command: Command) -> Command:
        answer = broker.on_send_batch_message(command)
        answer.ext()["msgId"] = ",".join(answer.ext()["msgId"].split(",")[:2])
        return answer

    broker.script[codes.SEND_BATCH_MESSAGE] = answer_two
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        outcomes = await asyncio.gather(*(producer.send(each) for each in texts(3)), return_exceptions=True)
        outcomes += await producer.send_many(texts(3))
        assert (producer.in_flight, producer._sender.size) == (0, 0)
    assert [type(each) for each in outcomes] == [PeerError] * 6
    assert len({id(each) for each in outcomes}) == 6
    assert "broker-a responded to a batch of 3 messages with 2 ids" in str(outcomes[0])


async def test_batch_with_a_single_id_is_stored(broker: ScriptedBroker) -> None:
    """The response of a queue that stores batches as one record."""

    def answer_one(command: Command) -> Command:
        answer = broker.on_send_batch_message(command)
        answer.ext()["msgId"] = answer.ext()["msgId"].partition(",")[0]
        return answer

    broker.script[codes.SEND_BATCH_MESSAGE] = answer_one
    async with Producer("P", broker.address) as producer:
        await producer.send(Message("T", b"first"))
        results = await asyncio.gather(*(producer.send(each) for each in texts(3)))
    assert len({result.offset_message_id for result in results}) == 1
    first = results[0].queue_offset
    assert [result.queue_offset - first for result in results] == [0, 1, 2]
