"""The limit of messages in flight: sends get their places in order."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import ClientStateError, Message, MessageRefused, RequestTimeout, Retry, TooFast
from bolide.layout.record import decode_records
from bolide.remoting import codes
from bolide.remoting.command import Command
from proof.kit.waiting import until
from tests.client.patient import Producer
from tests.client.producing.holding_broker import HoldingBroker, texts
from tests.client.scripted_broker import ScriptedBroker


async def test_a_task_that_sends_in_a_loop_does_not_block_others(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, max_in_flight=1) as producer:
        sent: list[bytes] = []

        async def send(name: bytes) -> None:
            for _ in range(20):
                await producer.send(Message("T", name))
                sent.append(name)

        await asyncio.gather(send(b"a"), send(b"b"), send(b"c"))
    assert {name: sent[:30].count(name) for name in (b"a", b"b", b"c")} == {b"a": 10, b"b": 10, b"c": 10}


async def test_waiting_sends_leave_in_order(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, max_in_flight=2) as producer:
        messages = [Message("T", str(number).encode(), sharding_key="k") for number in range(50)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
    assert [result.queue_offset for result in results] == list(range(50))


async def test_an_invalid_or_cancelled_send_passes_its_place_on(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, max_in_flight=1) as producer:
        sends = [
            asyncio.ensure_future(producer.send(Message("T", body))) for body in [b"1", b"", b"3", b"", b"5", b"6"]
        ]
        await asyncio.sleep(0)
        sends[2].cancel()
        outcomes = await asyncio.gather(*sends, return_exceptions=True)
        assert producer.in_flight == 0
        await producer.send(Message("T", b"last"))
    assert isinstance(outcomes[1], MessageRefused)
    assert isinstance(outcomes[3], MessageRefused)
    assert [each.body for each in broker.requests(codes.SEND_MESSAGE_V2)] == [b"1", b"5", b"6", b"last"]


async def test_submit_does_not_take_the_place_of_a_send_that_waits(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, max_in_flight=1) as producer:
        raised: list[BaseException] = []

        def submit(_: object) -> None:
            try:
                producer.submit(Message("T", b"third"))
            except TooFast as error:
                raised.append(error)

        producer.submit(Message("T", b"first")).add_done_callback(submit)
        await producer.send(Message("T", b"second"))
    assert len(raised) == 1


async def test_a_later_send_does_not_take_the_place_of_a_list_that_waits() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, max_in_flight=2) as producer:
            await producer.send(Message("T", b"route"))
            broker.holds = True
            first = asyncio.ensure_future(producer.send(Message("T", b"first")))
            await until(lambda: bool(broker.unsent), "a request in flight")
            many = asyncio.ensure_future(producer.send_many(texts(2)))
            later = asyncio.ensure_future(producer.send(Message("T", b"later")))
            await asyncio.sleep(0)
            broker.let_go()
            await asyncio.gather(first, many, later)
    stored = [decode_records(record)[0].body for record in broker.stored["T", 0]]
    assert stored.index(b"later") > stored.index(b"m1")


async def test_a_request_before_the_start_is_rejected(broker: ScriptedBroker) -> None:
    with pytest.raises(ClientStateError, match="not started"):
        await Producer("P", broker.address).request(Message("T", b"?"))


async def test_a_request_times_out_while_its_producer_is_introduced(broker: ScriptedBroker) -> None:
    def silence(command: Command) -> None:
        """Drop the request."""

    async with Producer("P", broker.address) as producer:
        broker.script[codes.GET_ROUTEINFO_BY_TOPIC] = silence
        with pytest.raises(RequestTimeout):
            await producer.request(Message("T", b"?"), 0.2)


async def test_sends_wait_while_the_bytes_in_flight_reach_their_limit() -> None:
    most = 0
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, max_in_flight_bytes=10_000, compress_above=10**6) as producer:
            sender = producer._sender
            await producer.send(Message("T", b"first"))
            assert sender.size == 0
            broker.holds = True
            sends = [asyncio.ensure_future(producer.send(Message("T", b"x" * 4000))) for _ in range(12)]
            sends.append(asyncio.ensure_future(producer.send(Message("T", b"x" * 20_000))))
            sends += [asyncio.ensure_future(producer.send_batch([Message("T", b"x" * 4000)] * 2)) for _ in range(3)]
            await until(lambda: sender.waiting == 13, "a full producer")
            assert (producer.in_flight, sender.size) == (3, 12_000)
            with pytest.raises(TooFast, match="12000 bytes .* raise max_in_flight_bytes"):
                producer.submit(Message("T", b"x"))
            listed = [Message("T", b"x" * 3000) for _ in range(20)]
            many = asyncio.create_task(producer.send_many(listed))
            broker.let_go()
            while not all(each.done() for each in [*sends, many]):
                most = max(most, sender.size if producer.in_flight > 1 else 0)
                await asyncio.sleep(0)
            await asyncio.gather(*sends)
            assert not any(isinstance(each, BaseException) for each in await many)
            assert (producer.in_flight, sender.size) == (0, 0)
    assert most <= 12_000


async def test_a_message_longer_than_the_limit_of_bytes_is_sent(broker: ScriptedBroker) -> None:
    async with Producer("P", broker.address, max_in_flight_bytes=10) as producer:
        assert (await producer.send(Message("T", b"x" * 100))).queue_offset == 0
        assert (await producer.submit(Message("T", b"x" * 100))).queue_offset == 0
        outcomes = await asyncio.gather(*(producer.send(Message("T", b"x" * 100)) for _ in range(4)))
    assert len(outcomes) == 4


async def test_bytes_of_failed_and_cancelled_sends_are_free_again() -> None:
    with HoldingBroker() as broker:
        async with Producer("P", broker.address, retry=Retry(attempts=1), codec="json") as producer:
            await producer.send(Message("T", b"first"))
            broker.holds = True
            futures = [producer.submit(message) for message in texts(3)]
            futures.append(producer.submit(Message("T", value={"a": 1}, delay_level=1, sharding_key="k")))
            assert producer._sender.size == 3 * 2 + len(b'{"a":1}')
            futures[0].cancel()
            await until(lambda: bool(broker.unsent), "a request in flight")
            broker.cut()
            await asyncio.gather(*futures, return_exceptions=True)
            await until(lambda: producer.in_flight == 0, "the end of the sends")
            assert producer._sender.size == 0
