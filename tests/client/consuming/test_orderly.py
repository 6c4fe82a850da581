"""Orderly consumption: locks, retries in place, and the way out."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from bolide.client import MessageQueue, ReceivedMessage
from bolide.remoting import codes
from bolide.remoting.command import make_response
from bolide.remoting.compression import COMPRESSED_FLAG
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, consumer
from tests.client.scripted_broker import ScriptedBroker, refusing


async def test_orderly_tries_again_in_place_and_nothing_overtakes(broker: ScriptedBroker) -> None:
    seen: dict[int, list[bytes]] = defaultdict(list)
    failed: set[bytes] = set()

    async def listener(message: ReceivedMessage) -> None:
        if int(message.body) % 5 == 0 and message.body not in failed:
            failed.add(message.body)
            raise ValueError("scripted")
        seen[message.queue_id].append(message.body)

    push = consumer(broker, orderly=True, orderly_pause=0.01)
    push.subscribe("T", "*", listener)
    broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(60)])
    async with push:
        await until(lambda: sum(map(len, seen.values())) == 60, "60 messages")
    for bodies in seen.values():
        assert bodies == sorted(bodies, key=int)
    assert broker.requests(codes.LOCK_BATCH_MQ)
    assert broker.requests(codes.UNLOCK_BATCH_MQ)
    assert not broker.requests(codes.CONSUMER_SEND_MSG_BACK)


async def test_orderly_out_of_tries_goes_to_the_retry_topic(broker: ScriptedBroker) -> None:
    push = consumer(broker, orderly=True, orderly_pause=0.01, max_reconsume_times=2)
    tries: list[int] = []

    def listener(message: ReceivedMessage) -> bool:
        tries.append(message.reconsume_times)
        return message.body != b"bad"

    push.subscribe("T", "*", listener)
    broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"bad", b"good")])
    async with push:
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 2, "both messages")
    assert tries[:3] == [0, 1, 2]
    ext = broker.requests(codes.SEND_MESSAGE_V2)[0].ext()
    assert ext["b"] == "%RETRY%G"
    assert int(ext["j"]) > int(ext["l"])  # which the broker takes for a dead letter


async def test_a_queue_locked_by_someone_else_is_left_alone(broker: ScriptedBroker) -> None:
    broker.script[codes.LOCK_BATCH_MQ] = lambda command: make_response(command, 0, body=b'{"lockOKMQSet":[]}')
    push = consumer(broker, orderly=True)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert push.assignment() == []
        assert not broker.requests(codes.PULL_MESSAGE)


async def test_a_queue_whose_lock_is_lost_is_not_pulled(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []

    def pulls() -> int:
        return sum(pull.ext()["topic"] == "T" for pull in broker.requests(codes.PULL_MESSAGE))

    push = consumer(broker, orderly=True)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        await until(lambda: pulls() >= 2, "a pull of each queue")
        broker.script[codes.LOCK_BATCH_MQ] = lambda command: make_response(command, 0, body=b'{"lockOKMQSet":[]}')
        await push._locks.refresh()
        before = pulls()  # one that found nothing for half a second was asked again
        broker.on_loop(lambda: [broker.store("T", queue_id, b"x", "") for queue_id in (0, 1)])
        for _ in range(3):
            await push.commit()
            await push.lag()  # the broker has answered what was asked before
        assert pulls() == before and not seen
        del broker.script[codes.LOCK_BATCH_MQ]
        await push._locks.refresh()
        await until(lambda: seen == [b"x", b"x"], "both messages")


async def test_a_lock_taken_for_nothing_is_given_back(broker: ScriptedBroker) -> None:
    broker.script[codes.QUERY_CONSUMER_OFFSET] = refusing(codes.SYSTEM_ERROR)
    push = consumer(broker, orderly=True)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert push.assignment() == []
        await until(lambda: len(broker.requests(codes.UNLOCK_BATCH_MQ)) >= 2, "the locks given back")


@pytest.mark.parametrize("batch", [0, 4])
@pytest.mark.parametrize("damage", ["compression", "codec"])
async def test_a_body_that_cannot_be_read_becomes_a_dead_letter(
    damage: str, batch: int, broker: ScriptedBroker
) -> None:
    push = consumer(broker, orderly=True, orderly_pause=0.001, codec="json")
    seen: list[object] = []

    def read(given: Any) -> None:
        messages = given if batch else [given]
        seen.extend([message.value for message in messages])

    push.subscribe("T", "*", read, batch=batch)
    flag = COMPRESSED_FLAG if damage == "compression" else 0

    def fill() -> None:
        for body, sys_flag in ((b"1", 0), (b"{", flag), (b"2", 0)):
            broker.store("T", 0, body, "", sys_flag)

    broker.on_loop(fill)
    async with push:
        await until(lambda: push.position(Q0) == 3, "all messages to end")
    assert seen == [1, 2]
    copy = broker.requests(codes.SEND_MESSAGE_V2)[0]
    assert (copy.body, copy.ext()["b"]) == (b"{", "%RETRY%G")
    assert int(copy.ext()["j"]) > int(copy.ext()["l"]) == 16  # which the broker takes for a dead letter
