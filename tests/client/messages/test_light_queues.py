"""Light queues (LMQ) from our client: listed by a producer, consumed by pull and push consumers, against our broker."""

from __future__ import annotations

from collections import Counter

import pytest

from bolide.client import ArgumentError, ConsumeResult, Message, MessageQueue, MessageRefused, ReceivedMessage, lmq
from bolide.client.messages.encoding import properties_text
from bolide.client.messages.light_queues import light_offset, queue_list
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Producer, PullConsumer, PushConsumer

pytestmark = pytest.mark.bolide_broker(enable_lmq=True, enable_multi_dispatch=True)


def test_names_are_given_with_or_without_their_prefix() -> None:
    assert lmq("a") == lmq("%LMQ%a") == "%LMQ%a"
    assert queue_list(["a", "%LMQ%b"]) == "%LMQ%a,%LMQ%b"
    assert queue_list("room") == "%LMQ%room"
    text = properties_text(Message("T", b"x", tags="t", light_queues=["a"]), "ID")
    assert text.endswith("INNER_MULTI_DISPATCH\x01%LMQ%a\x02")


@pytest.mark.parametrize("names", [[""], ["a/b"], ["a,b"], ["a", "%LMQ%a"], ["a\x02b"]], ids=repr)
def test_names_that_are_refused(names: list[str]) -> None:
    with pytest.raises(MessageRefused, match="light queue"):
        properties_text(Message("T", b"x", light_queues=names), "ID")


def test_a_place_in_a_light_queue() -> None:
    properties = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "7,0"}
    assert [light_offset(name, properties) for name in ("%LMQ%a", "%LMQ%b", "%LMQ%c")] == [7, 0, -1]
    assert light_offset("%LMQ%a", {}) == -1


def test_a_light_queue_needs_its_parent_and_a_topic_has_none() -> None:
    consumer = PushConsumer("G")
    with pytest.raises(ArgumentError, match="parent="):
        consumer.subscribe(lmq("a"), "*", print)
    with pytest.raises(ArgumentError, match="T has a route"):
        consumer.subscribe("T", "*", print, parent="P")


async def test_pulling_a_light_queue_of_several_queues(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 4)
    async with Producer("P", bolide_broker.namesrv_addr) as producer:
        for number in range(20):
            rooms = ["even"] if number % 2 == 0 else ["odd", "third"] if number % 3 == 0 else ["odd"]
            await producer.send(Message("T", b"%d" % number, tags="t", light_queues=rooms))
        await producer.send(Message(lmq("even"), b"alone"))
    async with PullConsumer("G", bolide_broker.namesrv_addr) as consumer:
        (queue,) = await consumer.queues(lmq("even"), parent="T")
        assert (queue.topic, queue.queue_id) == ("%LMQ%even", 0)
        await consumer.assign([queue], parent="T")
        found: list[ReceivedMessage] = []
        while len(found) < 11:
            found += await consumer.poll()
        assert [message.queue_offset for message in found] == list(range(11))
        assert [message.body for message in found] == [b"%d" % number for number in range(0, 20, 2)] + [b"alone"]
        assert {message.topic for message in found[:10]} == {"T"}
        assert {message.queue for message in found} == {queue}
        await consumer.commit()
        assert await consumer.committed(queue) == 11
        assert (await consumer.begin_offset(queue), await consumer.end_offset(queue)) == (0, 11)
        third = MessageQueue(lmq("third"), queue.broker_name, 0)
        await consumer.assign([third], parent="T")
        await consumer.seek_to_begin([third])
        assert [message.body for message in await consumer.poll(60)] == [b"3", b"9", b"15"]


async def test_push_consumers_of_light_queues_retry_and_go_on(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", 4)
    seen: Counter[tuple[str, bytes]] = Counter()
    topics: set[str] = set()

    def listener(name: str, message: ReceivedMessage) -> ConsumeResult | None:
        topics.add(message.topic)
        seen[name, message.body] += 1
        if message.body == b"3" and message.reconsume_times == 0:
            return ConsumeResult.RETRY
        return None

    def consumer() -> PushConsumer:
        made = PushConsumer("G", bolide_broker.namesrv_addr, start_from="first")
        for name in ("even", "odd"):
            made.subscribe(lmq(name), "*", lambda message, name=name: listener(name, message), parent="T")
        return made

    async with Producer("P", bolide_broker.namesrv_addr) as producer:

        async def send(numbers: range) -> None:
            await producer.send_many(
                Message("T", b"%d" % number, light_queues=["odd" if number % 2 else "even"]) for number in numbers
            )

        async with consumer() as first:
            await send(range(50))
            await until(lambda: len(seen) == 50, "all messages")
            assert {queue.topic for queue in first.assignment()} == {"%LMQ%even", "%LMQ%odd"}
            await first.commit()
        async with consumer():
            await send(range(50, 60))
            await until(lambda: len(seen) == 60, "what came later")
    assert {name for name, body in seen} == {"even", "odd"}
    assert all((int(body) % 2 == 1) == (name == "odd") for name, body in seen)
    assert {count for place, count in seen.items() if place != ("odd", b"3")} == {1}
    assert topics == {"T"}
