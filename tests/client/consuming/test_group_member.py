"""Where a group begins that reads a queue for the first time."""

from __future__ import annotations

import json

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, make_response
from proof.kit.waiting import until
from tests.client.consumer_parts import Q0, Q1, consumer
from tests.client.patient import PullConsumer
from tests.client.scripted_broker import ScriptedBroker


def pulls(broker: ScriptedBroker) -> list[Command]:
    return broker.requests(codes.PULL_MESSAGE) + broker.requests(codes.LITE_PULL_MESSAGE)


@pytest.mark.parametrize("young", [True, False], ids=["young", "old"])
async def test_a_message_between_two_questions_is_not_passed_over(young: bool, broker: ScriptedBroker) -> None:
    """RocketMQ's rule: 22 for an empty queue, 0 where the first message is still in memory, 22 where it is not."""

    def progress(command: Command) -> Command:
        known = broker.on_query_consumer_offset(command)
        begun = young and broker.stored.get(("T", int(command.ext()["queueId"])))
        return make_response(command, codes.SUCCESS, ext={"offset": "0"}) if begun else known

    def end(command: Command) -> Command:
        if int(command.ext()["queueId"]) == 0 and not broker.stored.get(("T", 0)):
            broker.store("T", 0, b"between", "")
        return broker.on_get_max_offset(command)

    broker.script = {codes.QUERY_CONSUMER_OFFSET: progress, codes.GET_MAX_OFFSET: end}
    async with PullConsumer("G", broker.address, start_from="last", suspend=0.5) as consumer:
        consumer.subscribe("T")
        await until(lambda: {pull.ext()["queueId"] for pull in pulls(broker)} == {"0", "1"}, "both queues begin")
        broker.on_loop(lambda: broker.store("T", 0, b"later", ""))
        seen = []
        async for message in consumer:
            seen.append(message.body)
            if message.body == b"later":
                break
    assert seen == ([b"between", b"later"] if young else [b"later"])


async def test_a_twin_with_the_same_client_id_is_noticed_and_leaves_nothing_unread(
    broker: ScriptedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def twice(command: Command) -> Command:
        members = sorted(broker.members["G"]) * 2  # a broker lists the members by their connections
        return make_response(command, codes.SUCCESS, body=json.dumps({"consumerIdList": members}).encode())

    broker.script[codes.GET_CONSUMER_LIST_BY_GROUP] = twice
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        assert push.assignment() == [Q0, Q1]
    assert "another consumer has the client id" in caplog.text
    assert "give each its own instance_name" in caplog.text
