"""Clients of a unit: what they create is marked as the unit's, at the broker and in the name server's lists."""

from __future__ import annotations

from bolide.client import Message, Producer, PushConsumer
from bolide.client.instance.options import ClientOptions
from bolide.client.messages.hooks import RpcCall, UnitHook
from bolide.remoting import codes
from bolide.remoting.bodies.base import decode_body
from bolide.remoting.bodies.topics import TopicList
from bolide.remoting.command import make_request
from bolide.testing.broker import Broker
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until


def test_the_hook_marks_what_has_a_mark() -> None:
    call = RpcCall("a:1", codes.SEND_MESSAGE_V2, {"k": "false"}, b"", False)
    UnitHook().before(call)
    assert call.ext == {"k": "true"}
    call = RpcCall("a:1", codes.HEART_BEAT, {}, b"", False)
    UnitHook().before(call)
    assert call.ext == {}


def test_the_client_id_ends_with_the_unit() -> None:
    assert ClientOptions.of("a:1", unit="north", fixed_name=True).client_id.endswith("@DEFAULT@north")
    assert ClientOptions.of("a:1", unit="north", client_id="mine").client_id == "mine"


async def test_topics_of_a_unit_stand_in_its_lists(bolide_broker: Broker) -> None:
    address = bolide_broker.namesrv_addr
    seen: list[bytes] = []
    consumer = PushConsumer("G", address, unit="north", start_from="first")
    consumer.subscribe("Mine", "*", lambda message: seen.append(message.body))
    async with Producer("P", address, unit="north") as north, Producer("P", address) as plain:
        await north.send(Message("Mine", b"x"))
        await plain.send(Message("Plain", b"x"))
        async with consumer:
            await until(lambda: seen == [b"x"], "the message")
    connection = await ClientConnection.connect(address, PATIENCE)

    async def listed(code: int) -> list[str]:
        answer = await connection.request(make_request(code, 0), 60)
        return list(decode_body(answer.body, TopicList).topic_list)

    assert await listed(codes.GET_UNIT_TOPIC_LIST) == ["Mine"]
    assert await listed(codes.GET_HAS_UNIT_SUB_TOPIC_LIST) == ["%RETRY%G"]
    assert await listed(codes.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST) == ["%RETRY%G"]
    connection.close()
    await connection.wait_closed()
