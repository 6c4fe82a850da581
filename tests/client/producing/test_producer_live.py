"""Producers against a broker of our own."""

from __future__ import annotations

import asyncio

import pytest

from bolide.client import Message, ReceivedMessage, Retry, SendResult, SendStatus
from bolide.errors import BolideError
from bolide.testing.broker import Broker
from tests.client.patient import Producer, PullConsumer


async def test_everything_sent_is_there_once(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 4)
    async with Producer("P", bolide_broker.namesrv_addr, max_in_flight=256) as producer:
        results = await producer.send_many(
            Message("T", b"%d" % number, tags="A", keys=f"k{number}", sharding_key=str(number % 7))
            for number in range(2000)
        )
        batch = await producer.send_batch([Message("T", b"b1"), Message("T", b"b2")])
        large = await producer.send(Message("T", b"x" * 100_000))
    assert all(isinstance(item, SendResult) and item.status is SendStatus.SEND_OK for item in results)
    assert len({item.queue for item in results[::7] if isinstance(item, SendResult)}) == 1
    assert len(batch.offset_message_id.split(",")) == 2
    assert large.queue_offset >= 0
    bodies: list[bytes] = []
    async with PullConsumer("G", bolide_broker.namesrv_addr, start_from="first") as consumer:
        consumer.subscribe("T")
        while len(bodies) < 2003:
            bodies += [message.body for message in await consumer.poll(max_messages=500)]
    assert sorted(bodies) == sorted([b"%d" % number for number in range(2000)] + [b"b1", b"b2", b"x" * 100_000])


async def test_concurrent_sends_are_stored_like_single_ones(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 1)
    numbers = range(300)
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        single = await producer.send(Message("T", b"single", tags="A", sharding_key="k"))
        sent = [Message("T", b"%d" % number, tags="A", keys=f"k{number}", sharding_key="k") for number in numbers]
        results = await asyncio.gather(*(producer.send(message) for message in sent))
    assert [result.queue_offset for result in results] == list(range(1, 301))
    received: list[ReceivedMessage] = []
    async with PullConsumer("G", bolide_broker.namesrv_addr, start_from="first") as consumer:
        consumer.subscribe("T")
        while len(received) < 301:
            received += await consumer.poll(max_messages=500)
    ids = [single.message_id, *(result.message_id for result in results)]
    assert [message.message_id for message in received] == ids
    assert [message.offset_message_id for message in received[1:]] == [result.offset_message_id for result in results]
    assert [message.body for message in received[1:]] == [message.body for message in sent]
    assert [result.transaction_id for result in results] == ids[1:]
    added = [
        [each for each in message.record.properties.split(b"\x02") if not each.startswith((b"UNIQ_KEY", b"KEYS"))]
        for message in received
    ]
    assert all(each == added[0] for each in added)


async def test_topics_are_created_by_the_first_message(bolide_broker: Broker) -> None:
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        for _ in range(8):
            await producer.send(Message("Fresh", b"x"))
        assert len(await producer.queues("Fresh")) == 4
    assert "Fresh" in bolide_broker.topics()


async def test_a_broker_that_stops_is_an_error_and_its_store_serves_again(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = str(tmp_path_factory.mktemp("store"))
    with Broker(store) as first:
        port = int(first.broker_addr.rpartition(":")[2])
        async with Producer("P", first.namesrv_addr, retry=Retry(attempts=1)) as producer:
            await producer.send(Message("T", b"1"))
            first.stop()
            with pytest.raises(BolideError):
                await producer.send(Message("T", b"2", sharding_key="k"))
    with Broker(store, listen_port=port) as again:
        async with Producer("P", again.namesrv_addr) as producer:
            assert (await producer.send(Message("T", b"3"))).status is SendStatus.SEND_OK
