"""What brokers ask of a consumer."""

from __future__ import annotations

from bolide.client import MessageQueue
from bolide.client.instance.protocol_json import json_body, queue_map
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.client.consumer_parts import consumer
from tests.client.scripted_broker import ScriptedBroker


async def test_brokers_may_ask_for_state_and_offsets(broker: ScriptedBroker) -> None:
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: None)
    async with push:
        broker.on_loop(lambda: broker.store("T", 0, b"x", ""))
        await until(lambda: push.position(MessageQueue("T", "broker-a", 0)) == 1, "the message")
        broker.ask_all(codes.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "G", "clientId": push.client_id})
        await until(lambda: len(broker.answers) == 1, "the running info")
        info = json_body(broker.answers[0].body)
        assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
        assert queue_map(info["mqTable"])[MessageQueue("T", "broker-a", 0)]["commitOffset"] == 1
        broker.ask_all(codes.GET_CONSUMER_STATUS_FROM_CLIENT, {"topic": "T", "group": "G"})
        await until(lambda: len(broker.answers) == 2, "the status")
        status = queue_map(json_body(broker.answers[1].body)["messageQueueTable"])
        assert status[MessageQueue("T", "broker-a", 0)] == 1
        broker.ask_all(codes.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "nobody"})
        await until(lambda: len(broker.answers) == 3, "the refusal")
        assert broker.answers[2].code == codes.SYSTEM_ERROR


async def test_a_broker_resets_offsets_and_has_a_message_consumed_directly(broker: ScriptedBroker) -> None:
    seen: list[bytes] = []
    push = consumer(broker)
    push.subscribe("T", "*", lambda message: seen.append(message.body))
    async with push:
        broker.on_loop(lambda: [broker.store("T", 0, body, "") for body in (b"1", b"2", b"3")])
        await until(lambda: len(seen) == 3, "three messages")
        body = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"T"}:1}}'
        broker.ask_all(codes.RESET_CONSUMER_CLIENT_OFFSET, {"group": "G", "topic": "T"}, body)
        await until(lambda: sorted(seen[3:]) == [b"2", b"3"], "the last two again")
        record = broker.stored["T", 0][0]
        broker.ask_all(codes.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "G", "brokerName": "broker-a"}, record)
        await until(lambda: len(seen) == 6, "the message given directly")
        await until(lambda: any(b"CR_SUCCESS" in answer.body for answer in broker.answers), "its outcome")
