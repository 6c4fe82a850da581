"""Push consumers: delivery, offsets, sharing, and leaving without loss."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message, MessageQueue, ReceivedMessage, sql
from bolide.client.instance.protocol_json import json_body, queue_map
from bolide.client.messages.errors import ClientStateError
from bolide.client.messages.hooks import RpcCall
from bolide.remoting import codes
from bolide.remoting.command import Command
from proof.kit.waiting import PATIENCE, until
from tests.client.consumer_parts import consumer
from tests.client.patient import Producer
from tests.client.scripted_broker import ScriptedBroker


@pytest.mark.parametrize("shape", ["async", "plain", "async batch", "plain batch"])
@pytest.mark.parametrize("orderly", [False, True])
async def test_every_shape_of_listener_gets_every_message_once(
    shape: str, orderly: bool, broker: ScriptedBroker
) -> None:
    bodies: list[bytes] = []

    async def one_async(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    def one_plain(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    async def some_async(messages: list[ReceivedMessage]) -> None:
        assert len(messages) <= 8
        bodies.extend(message.body for message in messages)

    def some_plain(messages: list[ReceivedMessage]) -> None:
        assert len(messages) <= 8
        bodies.extend(message.body for message in messages)

    listener: Any = {
        "async": one_async,
        "plain": one_plain,
        "async batch": some_async,
        "plain batch": some_plain,
    }[shape]
    push = consumer(broker, orderly=orderly)
    push.subscribe("T", "*", listener, batch=8 if "batch" in shape else 0)
    async with push:
        assert len(push.assignment()) == 2
        broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(200)])
        await until(lambda: len(bodies) >= 200, "200 messages")
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(200)]
    assert broker.offsets["G", "T", 0] == broker.offsets["G", "T", 1] == 100
    assert len(asyncio.all_tasks()) == 1


async def test_a_message_is_shown_with_all_its_fields(broker: ScriptedBroker) -> None:
    seen: list[ReceivedMessage] = []
    push = consumer(broker)
    push.subscribe("T", "*", seen.append)
    async with push, Producer("P", broker.address) as producer:
        sent = await producer.send(Message("T", b"x" * 5000, tags="A", keys=["k", "l"], properties={"a": "b"}, flag=3))
        await until(lambda: seen, "the message")
    (message,) = seen
    assert message.body == b"x" * 5000
    assert (message.topic, message.tags, message.keys, message.properties["a"]) == ("T", "A", ["k", "l"], "b")
    assert (message.message_id, message.offset_message_id) == (sent.message_id, sent.offset_message_id)
    assert (message.queue, message.queue_offset) == (sent.queue, sent.queue_offset)
    assert (message.reconsume_times, message.store_host, message.born_host) == (
        0,
        "127.0.0.1:10911",
        "127.0.0.1:10911",
    )
    assert message.store_timestamp > 0 < message.born_timestamp


async def test_tags_are_compared_as_text_on_this_side_too(broker: ScriptedBroker) -> None:
    seen: list[str] = []
    push = consumer(broker)
    push.subscribe("T", "AaAa || B", lambda message: seen.append(message.tags))
    async with push:
        tags = ("AaAa", "BBBB", "B", "")  # the first two have one hash
        broker.on_loop(lambda: [broker.store("T", 0, b"x", f"TAGS\x01{tag}\x02") for tag in tags])
        await until(lambda: len(seen) == 2, "two messages")
        await push.commit()
        await until(lambda: broker.offsets["G", "T", 0] >= 3, "the offset after the filtered ones")
    assert sorted(seen) == ["AaAa", "B"]
    heartbeat = json.loads(broker.requests(codes.HEART_BEAT)[0].body)
    data = {item["topic"]: item for item in heartbeat["consumerDataSet"][0]["subscriptionDataSet"]}
    assert data["T"]["tagsSet"] == ["AaAa", "B"]
    assert data["T"]["codeSet"] == [2031744, 66]
    assert data["%RETRY%G"]["subString"] == "*"


async def test_retries_of_several_topics_go_to_the_listener_of_each(broker: ScriptedBroker) -> None:
    seen: dict[str, list[bytes]] = {"T": [], "U": []}
    for number in range(20):
        topic = "TU"[number % 2]
        broker.store("%RETRY%G", 0, b"%b%d" % (topic.encode(), number), f"RETRY_TOPIC\x01{topic}\x02")
    broker.topics.update(("T", "U"))

    async def of_t(message: ReceivedMessage) -> None:
        seen["T"].append(message.body)

    async def of_u(message: ReceivedMessage) -> None:
        seen["U"].append(message.body)

    push = consumer(broker)
    push.subscribe("T", "*", of_t)
    push.subscribe("U", "*", of_u)
    async with push:
        await until(lambda: sum(map(len, seen.values())) >= 20, "all retries")
    assert seen == {
        "T": [b"T%d" % number for number in range(0, 20, 2)],
        "U": [b"U%d" % number for number in range(1, 20, 2)],
    }


async def test_brokers_are_told_anew_when_queues_have_moved(broker: ScriptedBroker) -> None:
    def versions(command: Command) -> dict[str, int]:
        (group,) = json.loads(command.body)["consumerDataSet"]
        return {item["topic"]: item["subVersion"] for item in group["subscriptionDataSet"]}

    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    broker.topics.add("U")
    push.subscribe("U", "*", lambda message: None)
    async with push:
        first, second = map(versions, broker.requests(codes.HEART_BEAT))
        assert second["T"] > first["T"] and second["U"] > first["U"]
        await until(lambda: len(broker.requests(codes.PULL_MESSAGE)) >= 4, "all queues pulled")
        asked = len(broker.requests(codes.GET_CONSUMER_LIST_BY_GROUP))
        broker.ask_all(codes.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "G"})
        await until(lambda: len(broker.requests(codes.GET_CONSUMER_LIST_BY_GROUP)) > asked, "another round")
        pulls = broker.requests(codes.PULL_MESSAGE)
        assert all(int(pull.ext()["subVersion"]) <= second[pull.ext()["topic"]] for pull in pulls)
        await push.unsubscribe("U")
    third, *_ = broker.requests(codes.HEART_BEAT)[2:]
    assert versions(third)["T"] == second["T"]


async def test_a_route_without_a_queue_to_read_takes_nothing_away(broker: ScriptedBroker) -> None:
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        held = push.assignment()
        assert len(held) == 2
        broker.queues = 0
        await push._member.instance.refresh_routes()
        assert not await push._member.rebalance()
        assert push.assignment() == held


async def test_two_members_share_and_one_takes_over(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    first, second = (consumer(broker, instance_name=name) for name in ("a", "b"))
    for push in (first, second):
        push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with first:
        assert len(first.assignment()) == 2
        async with second:
            broker.ask_all(codes.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "G"})
            await until(lambda: len(first.assignment()) == len(second.assignment()) == 1, "an even share")
            broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(50)])
            await until(lambda: len(seen) == 50, "50 messages")
        broker.ask_all(codes.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "G"})
        await until(lambda: len(first.assignment()) == 2, "the take-over")
    assert len(set(seen)) == 50


async def test_the_same_group_twice_is_refused(broker: ScriptedBroker) -> None:
    first, second = consumer(broker), consumer(broker)
    for push in (first, second):
        push.subscribe("T", "*", lambda message: None)
    async with first:
        with pytest.raises(ClientStateError, match="instance_name"):
            await second.start()
    await first.close()
    with pytest.raises(ClientStateError, match="closed"):
        await first.start()


async def test_consumer_continues_after_other_code_has_cancelled_its_tasks(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        await until(lambda: "rebalance G was cancelled by code outside the client" in caplog.text, "the restart")
        broker.on_loop(lambda: [broker.store("T", number, b"%d" % number, "") for number in range(2)])
        await until(lambda: sorted(seen) == [b"0", b"1"], "the messages")
        restarted = [record.getMessage() for record in caplog.records if "was cancelled by code" in record.getMessage()]
        assert {"heartbeat", "routes", "offsets G", "pull T@broker-a:0", "pull T@broker-a:1"} <= {
            text.partition(" was cancelled")[0] for text in restarted
        }
    assert len(asyncio.all_tasks()) == 1
    assert broker.offsets["G", "T", 0] == broker.offsets["G", "T", 1] == 1


async def test_closing_lets_running_listeners_finish_and_commits_what_they_did(broker: ScriptedBroker) -> None:
    entered, release = threading.Event(), threading.Event()

    def listener(message: ReceivedMessage) -> None:
        entered.set()
        assert release.wait(PATIENCE)

    push = consumer(broker, concurrency=1)
    push.subscribe("T", "*", listener)
    await push.start()
    broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
    await until(entered.is_set, "the listener")
    closing = asyncio.create_task(push.close())
    await asyncio.sleep(0)
    assert not closing.done()
    release.set()
    await closing
    assert broker.offsets["G", "T", 0] == 1


async def test_an_offset_out_of_range_is_corrected(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    broker.offsets["G", "T", 0] = 99
    broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        await until(lambda: broker.offsets["G", "T", 0] == 1, "the corrected offset")
        await until(lambda: len(push.assignment()) == 2, "the queue taken again")
        broker.on_loop(lambda: broker.store("T", 0, b"y", ""))
        await until(lambda: seen == [b"y"], "the next message")


async def test_broadcasting_reads_all_and_keeps_offsets_in_javas_file(tmp_path: Path, broker: ScriptedBroker) -> None:
    async def read() -> list[bytes]:
        seen: list[bytes] = []
        push = consumer(broker, model="broadcasting", offset_folder=tmp_path)
        push.subscribe("T", "*", lambda message: seen.append(message.body))
        async with push:
            broker.on_loop(lambda: [broker.store("T", number % 2, b"%d" % number, "") for number in range(10)])
            await until(lambda: len(seen) >= 10, "10 messages")
        return seen

    await read()
    assert not broker.requests(codes.UPDATE_CONSUMER_OFFSET)
    (file,) = tmp_path.rglob("offsets.json")
    assert file.parent.name == "G"
    assert file.parent.parent.name.endswith("@DEFAULT")
    table = queue_map(json_body(file.read_bytes())["offsetTable"])
    assert table == {MessageQueue("T", "broker-a", 0): 5, MessageQueue("T", "broker-a", 1): 5}
    assert len(await read()) == 10  # and continues where it was


async def test_sql_travels_as_such(broker: ScriptedBroker) -> None:
    push = consumer(broker, send_subscription=True)
    push.subscribe("T", sql("a > 5"), lambda message: None)
    async with push:
        await until(lambda: broker.requests(codes.PULL_MESSAGE), "a pull")
    pulls = [command.ext() for command in broker.requests(codes.PULL_MESSAGE)]
    (ext,) = {(ext["expressionType"], ext["subscription"]) for ext in pulls if ext["topic"] == "T"}
    assert ext == ("SQL92", "a > 5")


async def test_a_connection_that_is_cut_is_made_again_with_a_heartbeat_first(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        await until(lambda: len(broker.held) >= 2, "held pulls")
        broker.cut()
        mark = len(broker.seen)
        broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
        await until(lambda: seen == [b"x"], "the message after the cut")
        after = [command.code for command in broker.seen[mark:]]
        assert after.index(codes.HEART_BEAT) < after.index(codes.PULL_MESSAGE)


async def test_a_topic_may_be_subscribed_and_given_up_while_running(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    broker.topics.add("U")
    async with consumer(broker) as push:
        assert push.assignment() == []
        push.subscribe("T", "*", lambda message: seen.append(message.body))
        push.subscribe("U", "*", lambda message: seen.append(message.body))
        await until(lambda: len(push.assignment()) == 4, "the queues of both")
        broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
        await until(lambda: seen == [b"x"], "the message")
        await push.unsubscribe("T")
        assert {queue.topic for queue in push.assignment()} == {"U"}
        assert broker.offsets["G", "T", 0] == 1
    last = json.loads(broker.requests(codes.HEART_BEAT)[-1].body)["consumerDataSet"][0]
    assert {item["topic"] for item in last["subscriptionDataSet"]} == {"U", "%RETRY%G"}


async def test_retries_wait_while_no_topic_is_subscribed(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []
    async with consumer(broker) as push:
        push.subscribe("T", "*", lambda message: seen.append(message.body))
        await until(lambda: len(push.assignment()) == 2, "the queues")
        await push.unsubscribe("T")
        broker.on_loop(lambda: broker.store("%RETRY%G", 0, b"retry", "RETRY_TOPIC\x01T\x02"))
        push.subscribe("T", "*", lambda message: seen.append(message.body))
        await until(lambda: seen, "the retry")
    assert seen == [b"retry"]
    assert "failed" not in caplog.text


async def test_a_pull_that_fails_in_an_odd_way_goes_on(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[bytes] = []

    class FailsOnce:
        left = 2

        def before(self, call: RpcCall) -> None:
            if call.code == codes.PULL_MESSAGE and self.left:
                self.left -= 1
                raise RuntimeError("a hook of the user")

        def after(self, call: RpcCall, answer: Command) -> None: ...

    push = consumer(broker, hooks=(FailsOnce(),))
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        broker.on_loop(lambda: [broker.store("T", queue, b"%d" % queue, "") for queue in range(2)])
        await until(lambda: len(seen) == 2, "the messages of both queues")
    assert "restarting in 1 s" in caplog.text
