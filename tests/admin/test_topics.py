"""Calls on topics, against a broker of our own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bolide.admin import Admin
from bolide.admin.topics import ORDER_NAMESPACE
from bolide.client import Message, MessageRefused, NoQueue, ResponseError, TopicNotFound
from bolide.client.instance.routes import QueueInfo, TopicRoute
from bolide.errors import ConnectionLost, RequestTimeout
from bolide.remoting import codes
from bolide.remoting.command import make_request, make_response
from bolide.testing.broker import Broker
from tests.admin.cluster_of_one import TOPIC, clients


async def test_create_change_list_route_delete(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        assert await admin.topics() == [TOPIC]
        assert TOPIC in await admin.topics(cluster="DefaultCluster")
        assert "TBW102" in await admin.topics(system=True)
        assert len((await admin.topic_route(TOPIC)).write_queues()) == 2
        await admin.create_topic(TOPIC, read_queues=4, write_queues=3, perm=4)
        (config,) = (await admin.topic_configs(TOPIC)).values()
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 3, 4)
        await admin.delete_topic(TOPIC)
        with pytest.raises(TopicNotFound):
            await admin.topic_route(TOPIC)
        assert await admin.topics() == []


async def test_stats_count_what_was_sent(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, producer):
        for _ in range(6):
            await producer.send(Message(TOPIC, b"x"))
        stats = await admin.topic_stats(TOPIC)
        assert [(item.queue.queue_id, item.begin_offset, item.end_offset) for item in stats] == [(0, 0, 3), (1, 0, 3)]
        assert all(item.last_update > 0 for item in stats)
        assert await admin.topic_groups(TOPIC) == []


async def test_an_order_topic_has_its_queues_in_the_name_server(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        await admin.create_topic("Ordered", queues=3, order=True)
        conf = await admin.get_kv(ORDER_NAMESPACE, "Ordered")
        assert conf is not None
        assert conf.endswith(":3")
        assert await admin.list_kv(ORDER_NAMESPACE) == {"Ordered": conf}
        await admin.delete_kv(ORDER_NAMESPACE, "Ordered")
        assert await admin.get_kv(ORDER_NAMESPACE, "Ordered") is None
        await admin.create_topic("Ordered", order=True)
        await admin.delete_topic("Ordered")
        assert await admin.list_kv(ORDER_NAMESPACE) == {}


async def test_an_order_of_one_broker_leaves_the_others_in_it(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        (name,) = await admin.masters()
        (cluster,) = (await admin.cluster_info()).cluster_addr_table
        await admin.put_kv(ORDER_NAMESPACE, "Ordered", f"zz-other:4;{name}:1")
        await admin.create_topic("Ordered", queues=3, order=True, broker=name)
        assert await admin.get_kv(ORDER_NAMESPACE, "Ordered") == f"{name}:3;zz-other:4"
        await admin.create_topic("Ordered", queues=5, order=True, cluster=cluster)
        assert await admin.get_kv(ORDER_NAMESPACE, "Ordered") == f"{name}:5;zz-other:4"
        await admin.create_topic("Ordered", queues=6, order=True)
        assert await admin.get_kv(ORDER_NAMESPACE, "Ordered") == f"{name}:6"
        await admin.create_topic("New", queues=2, order=True, broker=name)
        assert await admin.get_kv(ORDER_NAMESPACE, "New") == f"{name}:2"
        await admin.create_topic("Ordered", order=False, broker=name)
        assert await admin.get_kv(ORDER_NAMESPACE, "Ordered") is None


class Ahead(asyncio.SelectorEventLoop):
    """A loop whose clock is put forward by hand."""

    ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


class Late(Admin):
    """Name servers that take a second for an answer, lose the first one, and know a new topic at the seventh."""

    asked = 0

    @property
    def _client(self) -> Any:
        return self

    async def masters(self, cluster: str | None = None, broker: str | None = None) -> dict[str, str]:
        return {"broker-a": "h:1"}

    async def ask(self, *what: Any, **more: Any) -> Any:
        return make_response(make_request(codes.GET_TOPIC_CONFIG, 0), codes.TOPIC_NOT_EXIST)

    async def fetch_route(self, topic: str) -> TopicRoute:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, Ahead)
        loop.ahead += 1
        self.asked += 1
        if self.asked == 1:
            raise ConnectionLost("no name server can be reached")
        if self.asked == 2:
            raise RequestTimeout("the name server did not answer")
        if self.asked == 3:
            raise ResponseError("the name server is busy", codes.SYSTEM_BUSY)
        if self.asked < 7:
            raise TopicNotFound("not yet", codes.TOPIC_NOT_EXIST)
        return TopicRoute(topic, (QueueInfo("broker-a", 8, 8, 6),), {})


def test_a_route_is_waited_for_as_long_as_an_answer() -> None:
    with asyncio.Runner(loop_factory=Ahead) as runner:
        assert runner.run(Late("h:1", timeout=600).create_topic("New")) == ["broker-a"]
        with pytest.raises(RequestTimeout, match=r"New is created, but after 5 s no name server routes to .* broker-a"):
            runner.run(Late("h:1", timeout=1).create_topic("New"))


async def test_invalid_topic_or_target_is_rejected(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        with pytest.raises(MessageRefused, match="invalid"):
            await admin.create_topic("a b")
        with pytest.raises(NoQueue, match="known brokers: "):
            await admin.create_topic("U", broker="nobody")
        with pytest.raises(NoQueue, match="cluster nowhere"):
            await admin.create_topic("U", cluster="nowhere")


async def settings(admin: Admin, topic: str) -> tuple[int, int, int, bool]:
    config = (await admin.topic_configs(topic))["broker-a"]
    return config.read_queue_nums, config.write_queue_nums, config.perm, config.order


async def test_a_change_changes_what_it_names(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        await admin.create_topic("Fresh")
        assert await settings(admin, "Fresh") == (8, 8, 6, False)
        await admin.create_topic("Kept", queues=2, order=True, attributes="+message.type=FIFO")
        await admin.create_topic("Kept", perm=4)
        assert await settings(admin, "Kept") == (2, 2, 4, True)
        await admin.create_topic("Kept", write_queues=1)
        assert await settings(admin, "Kept") == (2, 1, 4, True)
        assert (await admin.topic_configs("Kept"))["broker-a"].attributes == {"message.type": "FIFO"}
        await admin.create_topic("Kept", order=False, perm=6)
        assert await settings(admin, "Kept") == (2, 1, 6, False)


async def test_the_settings_of_all_topics_in_one_request(bolide_broker: Broker) -> None:
    async with clients(bolide_broker) as (admin, _):
        found = await admin.all_topic_configs()
        assert found[TOPIC]["broker-a"].read_queue_nums == 2
        assert "TBW102" in found
