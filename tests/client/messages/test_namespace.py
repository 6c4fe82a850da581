"""Namespaces: names as brokers know them and as users do, and two tenants of one broker that do not meet."""

from __future__ import annotations

import pytest

from bolide.client import ArgumentError, ConsumeResult, Message, NamespaceHook, RpcCall
from bolide.client.messages.namespace import check_namespace, with_namespace, without_namespace
from bolide.client.messages.received import ReceivedMessage
from bolide.testing.broker import Broker
from proof.kit.waiting import until
from tests.client.patient import Producer, PullConsumer, PushConsumer


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("T", "ns%T"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
        ("ns%T", "ns%T"),
        ("%RETRY%ns%g", "%RETRY%ns%g"),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("other%T", "ns%other%T"),
    ],
)
def test_wrapping(name: str, wrapped: str) -> None:
    assert with_namespace("ns", name) == wrapped
    assert with_namespace("", name) == name
    assert without_namespace("ns", wrapped) == without_namespace("ns", name)


def test_unwrapping() -> None:
    assert without_namespace("ns", "ns%T") == "T"
    assert without_namespace("ns", "%RETRY%ns%g") == "%RETRY%g"
    assert without_namespace("ns", "nsT") == "nsT"
    assert without_namespace("", "ns%T") == "ns%T"


@pytest.mark.parametrize("namespace", ["a%b", " "])
def test_namespaces_that_cannot_be(namespace: str) -> None:
    with pytest.raises(ArgumentError, match="namespace"):
        check_namespace(namespace)
    with pytest.raises(ArgumentError, match="namespace"):
        Producer("P", namespace=namespace)


def test_the_hook_says_the_namespace_in_every_request() -> None:
    call = RpcCall("a:1", 10, {"topic": "T"}, b"", False)
    NamespaceHook("ns").before(call)
    assert call.ext == {"topic": "T", "nsd": "true", "ns": "ns"}


async def test_two_tenants_do_not_meet(bolide_broker: Broker) -> None:
    seen: dict[str, list[tuple[str, bytes]]] = {"red": [], "blue": []}
    address = bolide_broker.namesrv_addr

    def consumer(tenant: str) -> PushConsumer:
        made = PushConsumer("G", address, namespace=tenant, start_from="first")

        def listener(message: ReceivedMessage) -> ConsumeResult | None:
            seen[tenant].append((message.topic, message.body))
            return None

        made.subscribe("T", "*", listener)
        return made

    async with Producer("P", address, namespace="red") as red, Producer("P", address, namespace="blue") as blue:
        assert (await red.send(Message("T", b"r"))).queue.topic == "T"
        await blue.send_batch([Message("T", b"b1"), Message("T", b"b2")])
        async with consumer("red"), consumer("blue"):
            await until(lambda: len(seen["red"]) == 1 and len(seen["blue"]) == 2, "each its own")
    assert seen["red"] == [("T", b"r")]
    assert sorted(seen["blue"]) == [("T", b"b1"), ("T", b"b2")]
    async with PullConsumer("Q", address, namespace="blue", start_from="first") as puller:
        queues = await puller.queues("T")
        await puller.assign(queues)
        found: list[ReceivedMessage] = []
        while len(found) < 2:
            found += await puller.poll()
        assert {message.topic for message in found} == {"T"}
    assert {"red%T", "blue%T", "%RETRY%red%G"} <= set(bolide_broker.topics())
