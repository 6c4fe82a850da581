"""Calls of an operator at Java's servers and consumers: KV table, settings, producers, stacks, counters."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from bolide.client import Message, ResponseError
from bolide.testing.broker import Broker
from proof.interop.matrix import OF_OURS, marked
from proof.kit.waiting import PROCESS_PATIENCE, until
from tests.client.patient import Admin, Producer, PushConsumer
from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.receiving import received, routed

pytestmark = pytest.mark.java

NAMESPACE = "BOLIDE_TEST"


@marked(OF_OURS, "KV table of a name server")
async def test_kv_table_of_a_name_server(cluster: JavaCluster) -> None:
    async with Admin(cluster.namesrv) as admin:
        assert await admin.get_kv(NAMESPACE, "key") is None
        assert await admin.list_kv(NAMESPACE) == {}
        await admin.put_kv(NAMESPACE, "key", "a=b;c")
        await asyncio.to_thread(cluster.mqadmin.run, "updateKvConfig", "-s", NAMESPACE, "-k", "other", "-v", "2")
        assert await admin.get_kv(NAMESPACE, "key") == "a=b;c"
        assert await admin.list_kv(NAMESPACE) == {"key": "a=b;c", "other": "2"}
        await asyncio.to_thread(cluster.mqadmin.run, "deleteKvConfig", "-s", NAMESPACE, "-k", "key")
        await admin.delete_kv(NAMESPACE, "other")
        assert await admin.get_kv(NAMESPACE, "key") is None
        assert await admin.list_kv(NAMESPACE) == {}


@marked(OF_OURS, "settings of a name server")
async def test_settings_of_a_name_server(cluster: JavaCluster) -> None:
    async with Admin(cluster.namesrv) as admin:
        (settings,) = (await admin.namesrv_config()).values()
        assert settings["orderMessageEnable"] == "false"
        await admin.update_namesrv_config({"orderMessageEnable": "true"})
        (settings,) = (await admin.namesrv_config()).values()
        assert settings["orderMessageEnable"] == "true"
        printed = await asyncio.to_thread(cluster.mqadmin.run, "getNamesrvConfig")
        assert ["orderMessageEnable", "=", "true"] in [line.split() for line in printed.splitlines()]
        await admin.update_namesrv_config({"orderMessageEnable": "false"})


@marked(OF_OURS, "producers of a topic")
async def test_producers_of_a_topic(cluster: JavaCluster, topic: str) -> None:
    group = f"{topic}-senders"
    async with Producer(group, cluster.namesrv) as producer, Admin(cluster.namesrv) as admin:
        await producer.send(Message(topic, b"x"))
        await routed(admin, topic)
        (found,) = (await admin.producers(topic=topic))[group]
        assert (found.client_id, found.language) == (producer.client_id, "PYTHON")
        (connected,) = await admin.producer_connections(group, topic)
        assert connected.client_id == producer.client_id
        assert await admin.producer_connections(f"{group}-2", topic) == []


@marked(OF_OURS, "stacks of a consumer")
async def test_stacks_of_a_consumer(cluster: JavaCluster, topic: str) -> None:
    ours, java = f"{topic}-ours", f"{topic}-java"
    seen: list[bytes] = []
    consumer = PushConsumer(ours, cluster.namesrv, start_from="first")
    consumer.subscribe(topic, "*", lambda message: seen.append(message.body))
    async with Producer("P", cluster.namesrv) as producer, Admin(cluster.namesrv) as admin, consumer:
        await producer.send(Message(topic, b"x"))
        await until(lambda: seen, "the message", PROCESS_PATIENCE)
        status = ("consumerStatus", "-g", ours, "-i", consumer.client_id, "-s")
        printed = await asyncio.to_thread(cluster.mqadmin.run, *status)
        assert '"MainThread" TID: ' in printed
        assert "in test_stacks_of_a_consumer" in printed
        await asyncio.to_thread(cluster.java.call, "consume", group=java, topic=topic)
        await asyncio.to_thread(cluster.java.call, "await", group=java, count=1)
        connections = await admin.consumer_connections(java)
        assert connections is not None
        (member,) = connections.connection_set
        info = await admin.consumer_running_info(java, member.client_id, stack=True)
        assert info.jstack is not None
        assert "PullMessageService" in info.jstack
        assert (await admin.consumer_running_info(java, member.client_id)).jstack in (None, "")
        await asyncio.to_thread(cluster.java.call, "stop", group=java)


async def counted(namesrv: str, topic: str, name: str) -> set[str]:
    """Consume some messages. Return the keys of a counter of the group that the broker has."""
    group = f"{topic}-group"
    found = set()
    async with Producer("P", namesrv) as producer, Admin(namesrv) as admin:
        for number in range(4):
            await producer.send(Message(topic, b"%d" % number))
        await routed(admin, topic)
        await received(namesrv, topic, 4)
        for key in (f"{topic}@{group}", f"0@{topic}@{group}"):
            with suppress(ResponseError):
                await admin.broker_stats("broker-a", name, key)
                found.add(key)
    return found


@pytest.mark.parametrize("name", ["GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME"])
async def test_only_bolide_serves_the_lag_of_the_last_pull(
    cluster: JavaCluster, topic: str, tmp_path: Path, name: str
) -> None:
    assert await counted(cluster.namesrv, topic, name) == set(), "docs/compatibility.md: Java has it in its log only"
    with Broker(str(tmp_path)) as broker:
        assert await counted(broker.namesrv_addr, topic, name) == {f"0@{topic}@{topic}-group"}
