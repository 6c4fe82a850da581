"""Which broker of a set a pull asks, and what it does when that one is gone."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from typing import Any

import pytest

from bolide.client import DamagedMessage, MessageQueue, ResponseError
from bolide.client.consuming.pull import PULL_BYTES, PullRequest, PullStatus, moved_after, pull, pull_or_restart
from bolide.client.instance.instance import ClientInstance
from bolide.client.instance.options import ClientOptions
from bolide.client.messages.received import received_messages
from bolide.client.messages.subscription import Subscription
from bolide.errors import ConnectionLost
from bolide.layout.record import MIN_RECORD_SIZE
from bolide.remoting import codes
from bolide.remoting.bulk_pulls import bulk_bytes
from bolide.remoting.command import Command, make_response
from bolide.remoting.damaged_answer import damaged_ext
from proof.kit.waiting import PATIENCE, until, until_answered
from tests.client.consumer_parts import consumer, pull_consumer
from tests.client.patient import patient
from tests.client.scripted_broker import ScriptedBroker

QUEUE = MessageQueue("T", "broker-a", 0)
THE_FUTURE = 4_000_000_000_000
"""In ms since 1970: the year 2096."""


def nothing(command: Command) -> Command:
    """What a slave of 5.5.0 answers when it has no more: it sends the client back to the master at once."""
    offset = command.ext()["queueOffset"]
    places = {"nextBeginOffset": offset, "minOffset": "0", "maxOffset": offset, "suggestWhichBrokerId": "0"}
    return make_response(command, codes.PULL_RETRY_IMMEDIATELY, ext=places)


async def test_a_replica_that_holds_no_pulls_is_known_while_its_master_is_gone(broker: ScriptedBroker) -> None:
    broker.script[codes.PULL_MESSAGE] = nothing
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        request = PullRequest("G", QUEUE, 0, Subscription("T", "*", "TAG", 0))
        for addresses, idle in (({"1": broker.address}, True), ({"0": broker.address}, False)):
            broker.addresses = addresses
            await instance.fetch_route("T")
            assert (await pull(instance, request)).idle_replica is idle
        broker.addresses = {"0": "127.0.0.1:1", "1": broker.address}
        await instance.fetch_route("T")
        request.broker_id = 1  # the next pull goes to the master again, without a pause
        assert not (await pull(instance, request)).idle_replica
    finally:
        await instance.release()


async def test_after_a_lost_connection_the_route_is_asked_for_once(broker: ScriptedBroker) -> None:
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        broker.addresses = {"0": "127.0.0.1:1", "2": broker.address, "3": "127.0.0.1:2"}
        await instance.fetch_route("T")
        request = PullRequest("G", QUEUE, 0, Subscription("T", "*", "TAG", 0), asked="127.0.0.1:1")
        broker.addresses = {"3": "127.0.0.1:2", "2": broker.address}
        asked = len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC))
        assert await moved_after(instance, request, ConnectionLost("gone"))
        assert instance.any_address("broker-a") == broker.address  # the smallest id
        assert await moved_after(instance, request, ConnectionLost("gone"))  # another queue has asked
        request.asked = broker.address
        assert not await moved_after(instance, request, ConnectionLost("gone"))
        assert len(broker.requests(codes.GET_ROUTEINFO_BY_TOPIC)) == asked + 1
    finally:
        await instance.release()


def damage(broker: ScriptedBroker, offset: int) -> None:
    """Flip a bit in the body of a message of queue 0, which is one byte long."""
    record = bytearray(broker.stored["T", 0][offset])
    record[MIN_RECORD_SIZE - 3] ^= 1
    broker.stored["T", 0][offset] = bytes(record)


def stored(broker: ScriptedBroker, *damaged: int) -> None:
    """Store four messages in queue 0 and damage some."""
    for body in (b"0", b"1", b"2", b"3"):
        broker.store("T", 0, body, "")
    for offset in damaged:
        damage(broker, offset)


async def test_pull_ends_before_a_damaged_message_and_fails_at_it(broker: ScriptedBroker) -> None:
    broker.on_loop(lambda: stored(broker, 2))
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        await instance.fetch_route("T")
        request = PullRequest("G", QUEUE, 0, Subscription("T", "*", "TAG", 0))
        result = await pull(instance, request)
        assert ([message.body for message in result.messages], result.next_offset) == ([b"0", b"1"], 2)
        request.offset = 2
        with pytest.raises(DamagedMessage, match=r"broker-a.*queue T:0, offset 2, .*bolide store verify") as raised:
            await pull(instance, request)
        assert pickle.loads(pickle.dumps(raised.value)).retriable is raised.value.retriable
        request.offset = 3
        assert (await pull(instance, request)).next_offset == 4
        broker.on_loop(lambda: broker.stored["T", 0].__setitem__(3, b"no record"))
        with pytest.raises(DamagedMessage, match="its lengths do not match"):
            await pull(instance, request)
    finally:
        await instance.release()


async def test_damaged_message_is_pulled_from_another_broker_of_the_set(broker: ScriptedBroker) -> None:
    with ScriptedBroker() as empty, ScriptedBroker() as replica:
        broker.on_loop(lambda: stored(broker, 0))
        replica.on_loop(lambda: stored(replica, 1))
        broker.addresses = {"0": broker.address, "1": "127.0.0.1:1", "2": empty.address, "3": replica.address}
        instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
        try:
            await instance.fetch_route("T")
            request = PullRequest("G", QUEUE, 0, Subscription("T", "*", "TAG", 0), commit_offset=1)
            result = await pull(instance, request)
            assert ([message.body for message in result.messages], result.next_offset) == ([b"0"], 1)
            assert [len(each.requests(codes.PULL_MESSAGE)) for each in (broker, empty, replica)] == [1, 1, 1]
            broker.script[codes.PULL_MESSAGE] = lambda command: make_response(
                command, codes.SYSTEM_ERROR, "the message is damaged", damaged_ext()
            )
            assert [message.body for message in (await pull(instance, request)).messages] == [b"0"]
            broker.script[codes.PULL_MESSAGE] = lambda command: make_response(command, codes.SYSTEM_ERROR, "no")
            with pytest.raises(ResponseError, match="PULL_MESSAGE with SYSTEM_ERROR") as raised:
                await pull(instance, request)
            assert not isinstance(raised.value, DamagedMessage)
            assert len(replica.requests(codes.PULL_MESSAGE)) == 2
        finally:
            await instance.release()


@pytest.mark.parametrize("orderly", [False, True])
async def test_push_consumer_stops_at_a_damaged_message(broker: ScriptedBroker, orderly: bool) -> None:
    seen: list[bytes] = []
    broker.on_loop(lambda: stored(broker, 2))
    push = consumer(broker, orderly=orderly)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        await until(lambda: isinstance(push.refusal, DamagedMessage), "the report")
        await until(lambda: push.position(QUEUE) == 2, "the messages before it")
        assert seen == [b"0", b"1"]
    assert broker.offsets["G", "T", 0] == 2


async def test_poll_raises_at_a_damaged_message_until_it_is_intact(broker: ScriptedBroker) -> None:
    broker.on_loop(lambda: stored(broker, 1))
    async with pull_consumer(broker) as polled:
        polled.subscribe("T")
        assert [message.body for message in await polled.poll(60)] == [b"0"]
        with pytest.raises(DamagedMessage, match="offset 1"):
            while not await polled.poll(1):
                pass
        assert polled.position(QUEUE) == 1
        broker.on_loop(lambda: damage(broker, 1))  # the same bit again: the message is whole
        bodies: list[bytes] = []
        while len(bodies) < 3:
            with contextlib.suppress(DamagedMessage):
                bodies += [message.body for message in await polled.poll(1)]
        assert bodies == [b"1", b"2", b"3"]


async def test_no_other_way_delivers_a_damaged_message(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    broker.on_loop(lambda: stored(broker, 0))
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        record = broker.stored["T", 0][0]
        broker.ask_all(codes.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "G", "brokerName": "broker-a"}, record)
        await until(lambda: any(b"CRC" in (each.remark or "").encode() for each in broker.answers), "the refusal")
    assert seen == []
    with pytest.raises(DamagedMessage):
        received_messages(record, "broker-a")


@pytest.mark.slow  # the client asks for routes every 30 s
async def test_a_consumer_moves_to_the_replica_and_back() -> None:
    with ScriptedBroker() as master, ScriptedBroker() as replica:
        seen: list[bytes] = []
        push = consumer(master)
        push.subscribe("T", "*", lambda message: seen.append(message.body))
        async with push:
            master.on_loop(lambda: master.store("T", 0, b"1", ""))
            await until(lambda: seen == [b"1"], "the message of the master")
            replica.on_loop(lambda: [replica.store("T", 0, body, "") for body in (b"1", b"2")])
            master.addresses = {"1": replica.address}
            master.cut()
            await until(lambda: seen == [b"1", b"2"], "the message of the replica")

            async def committed() -> int:
                await push.commit()  # of the queue; the listener has returned, its message may not be taken out yet
                return replica.offsets["G", "T", 0]

            await until_answered(committed, 2)
            master.on_loop(lambda: [master.store("T", 0, body, "") for body in (b"2", b"3")])
            master.addresses = None
            replica.cut()
            await until(lambda: seen == [b"1", b"2", b"3"], "the messages after its return")


@pytest.mark.parametrize(
    ("last_stored", "next_offset"),
    [(0, 3), (1_000, 0), (THE_FUTURE, 3)],
    ids=["unknown", "made again", "lost its tail"],
)
async def test_a_queue_is_read_from_its_start_only_if_that_is_younger_than_what_was_read(
    last_stored: int, next_offset: int, broker: ScriptedBroker
) -> None:
    for number in range(3):
        broker.store("T", 0, b"%d" % number, "TAGS\x01other\x02")
    wanted = Subscription("T", "wanted", "TAG", 0, frozenset({"wanted"}))
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        await instance.fetch_route("T")
        request = PullRequest("G", QUEUE, 100, wanted, suspend=0.0)
        result = await pull_or_restart(instance, request, last_stored)
    finally:
        await instance.release()
    assert (result.status, result.next_offset) == (PullStatus.OFFSET_ILLEGAL, next_offset)


@pytest.mark.parametrize("kind", ["push", "pull"])
async def test_a_topic_made_again_under_a_consumer_is_read_completely(kind: str, broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    old, new = [b"old%d" % number for number in range(8)], [b"new%d" % number for number in range(3)]
    broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in old])
    member: Any = consumer(broker) if kind == "push" else pull_consumer(broker)
    member.subscribe("T", "*", *([lambda message: seen.append(message.body)] if kind == "push" else []))

    async def read(count: int) -> None:
        while kind == "pull" and len(seen) < count:
            seen.extend([message.body for message in await member.poll(0.05)])
        await until(lambda: len(seen) >= count, f"{count} messages")

    def make_again() -> None:
        broker.stored.clear()
        for body in new:
            broker.store("T", 0, body, "")

    async with asyncio.timeout(PATIENCE), member:
        await read(len(old))
        broker.on_loop(make_again)
        broker.cut()
        await read(len(old) + len(new))
    assert sorted(seen) == sorted(old + new)  # threads run the listener, in any order


@pytest.mark.parametrize(("count", "asked"), [(32, False), (33, True)])
async def test_only_a_large_pull_has_the_field_of_a_bulk_pull(
    count: int, asked: bool, broker: ScriptedBroker
) -> None:
    broker.on_loop(lambda: stored(broker))
    instance = ClientInstance.acquire(patient(ClientOptions.of(broker.address)))
    try:
        await instance.fetch_route("T")
        await pull(instance, PullRequest("G", QUEUE, 0, Subscription("T", "*", "TAG", 0), count))
    finally:
        await instance.release()
    (command,) = broker.requests(codes.PULL_MESSAGE)
    assert bulk_bytes(command) == (PULL_BYTES if asked else 0)
    assert command.ext()["maxMsgNums"] == str(count)
