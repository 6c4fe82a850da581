"""The limit of messages in flight: sends get their places in order."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import ClientStateError, Message, MessageRefused, RequestTimeout, TooFast
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
