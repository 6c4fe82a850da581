"""Request-reply: Java and our client asking and answering each other, at our broker and at Java's."""

import asyncio
from pathlib import Path

import pytest

from bolide.client import Message, ReceivedMessage
from proof.interop.java_artefacts import BROKER_VERSION, CLIENT_VERSIONS
from proof.interop.java_processes import JavaBroker, JavaClient, JavaNameServer
from proof.interop.matrix import to_ours
from proof.kit.our_processes import OurBroker, OurNameServer
from tests.client.patient import Producer, PushConsumer

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("java-replies")]


async def ask_each_other(java: JavaClient, namesrv: str, name: str) -> None:
    """Java asks Java, we ask Java, Java asks us."""
    ours, theirs = f"ours_{name}", f"theirs_{name}"
    java.call("send", topic=ours, mode="sync", count=1)  # the topics exist and their routes are known
    java.call("send", topic=theirs, mode="sync", count=1)
    java.call("consume", group=theirs, topic=theirs, answers=1)
    answer = java.call("request", topic=theirs, body="abc")
    assert (answer["body"], answer["topic"]) == ("cba", "DefaultCluster_REPLY_TOPIC")
    assert answer["properties"]["PUSH_REPLY_TIME"]
    async with Producer("asker", namesrv) as producer:
        message = await producer.request(Message(theirs, b"x" * 5000 + b"y"), 120)
        assert message.body == b"y" + b"x" * 5000
    consumer = PushConsumer(ours, namesrv, start_from="first")

    async def shout(message: ReceivedMessage) -> None:
        if message.get_property("REPLY_TO_CLIENT"):
            await consumer.reply_to(message, message.body.upper())

    consumer.subscribe(ours, "*", shout)
    async with consumer:
        answer = await asyncio.to_thread(java.call, "request", topic=ours, body="abc")
    java.call("stop", group=theirs)
    assert answer["body"] == "ABC"


@to_ours("request-reply")
@pytest.mark.parametrize("version", CLIENT_VERSIONS)
@pytest.mark.parametrize("binary", [False, True], ids=["json", "binary"])
async def test_at_our_broker(
    namesrv: OurNameServer, broker: OurBroker, tmp_path: Path, version: str, binary: bool
) -> None:
    java = JavaClient(tmp_path, namesrv.address, version, binary_header=binary)
    try:
        await ask_each_other(java, namesrv.address, f"{version.replace('.', '')}{'b' if binary else 'j'}")
    finally:
        java.close()


async def test_at_a_java_broker(tmp_path: Path) -> None:
    namesrv = JavaNameServer(tmp_path / "namesrv")
    broker = JavaBroker(tmp_path / "broker", namesrv.address)
    java = JavaClient(tmp_path / "client", namesrv.address, BROKER_VERSION)
    try:
        await ask_each_other(java, namesrv.address, "java")
    finally:
        java.close()
        broker.kill()  # nobody reads the store: a good end takes 15 s
        namesrv.kill()
