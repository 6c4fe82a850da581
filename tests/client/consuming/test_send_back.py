"""What a listener fails on goes back to the broker, and how."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bolide.client import ConsumeResult, MessageQueue, ReceivedMessage, RetryLater
from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from proof.kit.waiting import until
from tests.client.consumer_parts import consumer
from tests.client.scripted_broker import ScriptedBroker, refusing


@pytest.mark.parametrize("how", ["exception", "false", "retry", "later", "dead"])
async def test_a_failed_message_is_sent_back_and_its_offset_moves_on(how: str, broker: ScriptedBroker) -> None:
    def listener(message: ReceivedMessage) -> Any:
        if message.body != b"bad":
            return None
        match how:
            case "exception":
                raise ValueError("scripted")
            case "false":
                return False
            case "retry":
                return ConsumeResult.RETRY
            case "later":
                raise RetryLater(5)
        raise RetryLater(-1)

    push = consumer(broker, max_reconsume_times=7)
    push.subscribe("T", "*", listener)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"good", b"bad", b"good")])
        await until(lambda: broker.requests(codes.CONSUMER_SEND_MSG_BACK), "the message sent back")
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 3, "the offset")
    (request,) = broker.requests(codes.CONSUMER_SEND_MSG_BACK)
    ext = request.ext()
    assert ext["delayLevel"] == {"later": "5", "dead": "-1"}.get(how, "0")
    assert (ext["group"], ext["originTopic"], ext["maxReconsumeTimes"]) == ("G", "T", "7")
    assert int(ext["offset"]) > 0


@pytest.mark.parametrize("orderly", [False, True])
async def test_unfinished_messages_are_reread_from_a_master_with_a_shorter_log(orderly: bool) -> None:
    """It ends before what was pulled of the old one. What is not done below its end is not passed over."""

    class Unsure(ScriptedBroker):
        def on_consumer_send_msg_back(self, command: Command) -> Command:
            return make_response(command, codes.FLUSH_SLAVE_TIMEOUT)

    with Unsure() as broker:
        seen: list[bytes] = []

        def listener(message: ReceivedMessage) -> bool:
            seen.append(message.body)
            return moved or message.body != b"1"

        moved = False
        queue = MessageQueue("T", "broker-a", 0)
        push = consumer(broker, orderly=orderly, orderly_pause=60) if orderly else consumer(broker)
        push.subscribe("T", "*", listener)
        broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(4)])
        async with push:
            await until(lambda: b"1" in seen and (orderly or b"3" in seen), "the messages of the old master")
            moved = True
            broker.on_loop(lambda: broker.stored["T", 0].pop())
            broker.cut()
            await until(lambda: seen.count(b"1") > 1 and b"2" in seen, "those that are not done")
            await until(lambda: push.position(queue) == 3, "the end of the new master's queue")


async def test_a_count_says_how_many_at_the_front_of_a_batch_were_consumed(broker: ScriptedBroker) -> None:
    push = consumer(broker)
    push.subscribe("T", "*", lambda messages: 2, batch=8)
    broker.on_loop(lambda: [broker.store("T", 0, b"%d" % number, "") for number in range(5)])
    async with push:
        await until(lambda: len(broker.requests(codes.CONSUMER_SEND_MSG_BACK)) == 3, "three sent back")


async def test_rejected_send_back_goes_to_the_retry_topic(broker: ScriptedBroker) -> None:
    broker.script[codes.CONSUMER_SEND_MSG_BACK] = refusing(codes.SYSTEM_ERROR)
    tries: list[tuple[str, int]] = []

    def listener(message: ReceivedMessage) -> bool:
        tries.append((message.topic, message.reconsume_times))
        return message.reconsume_times > 0

    push = consumer(broker)
    push.subscribe("T", "*", listener)
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"x", "UNIQ_KEY\x01U\x02"))
        await until(lambda: broker.requests(codes.SEND_MESSAGE_V2), "the copy")
    ext = broker.requests(codes.SEND_MESSAGE_V2)[0].ext()
    assert (ext["b"], ext["j"], ext["l"]) == ("%RETRY%G", "1", "16")
    assert "RETRY_TOPIC\x01T\x02" in ext["i"]
    assert "DELAY\x013\x02" in ext["i"]
    assert tries[0] == ("T", 0)


async def test_a_copy_that_may_be_lost_does_not_count_and_the_message_is_delivered_again(
    broker: ScriptedBroker,
) -> None:
    answers = [codes.FLUSH_DISK_TIMEOUT, codes.SLAVE_NOT_AVAILABLE, codes.FLUSH_SLAVE_TIMEOUT]
    bodies = {b"0", b"1", b"2"}

    def unsure(command: Command) -> Command:
        return make_response(command, answers.pop(), "scripted")

    broker.script[codes.CONSUMER_SEND_MSG_BACK] = unsure
    tries: list[bytes] = []

    def listener(message: ReceivedMessage) -> bool:
        tries.append(message.body)
        return tries.count(message.body) == 2

    push = consumer(broker)
    push.subscribe("T", "*", listener)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in sorted(bodies)])
        await until(lambda: not answers, "all of them sent back")
        assert push.position(MessageQueue("T", "broker-a", 0)) == 0
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 3, "the offset after them")
    assert sorted(tries) == sorted([*bodies, *bodies])
    assert not broker.requests(codes.SEND_MESSAGE_V2), "no second copy"


async def test_a_message_a_listener_has_for_too_long_is_sent_back_and_the_queue_goes_on(broker: ScriptedBroker) -> None:
    release = asyncio.Event()

    async def listener(message: ReceivedMessage) -> None:
        if message.body == b"slow":
            await release.wait()

    push = consumer(broker, consume_timeout=0.2)
    push.subscribe("T", "*", listener)
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"slow", b"quick")])
        await until(lambda: broker.requests(codes.CONSUMER_SEND_MSG_BACK), "the slow message sent back")
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 2, "the offset after it")
        release.set()
    assert broker.requests(codes.CONSUMER_SEND_MSG_BACK)[0].ext()["delayLevel"] == "3"
    assert len(broker.requests(codes.CONSUMER_SEND_MSG_BACK)) == 1
