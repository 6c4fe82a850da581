"""A slow disk holds up who asks for what is on it, and nobody else: no request reads the disk on the loop."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import RealNodeWorld
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.transport.client import ClientConnection
from proof.kit.waiting import PATIENCE, until
from tests.node.brokers import options, send_request
from tests.store.parts import ColdFiles

MESSAGES = 60
TIME = "1000000000000"


class ColdDisk(ColdFiles):
    """While it is cold nothing is in memory, whatever was read before, and the loop must not read."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked: list[str] = []
        self.fetched = 0

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        if self.cold and threading.current_thread() is threading.main_thread():
            self.blocked.append(self._paths[handle])
        return super().read_at(handle, size, offset)

    def fetch(self, path: str, offset: int, size: int) -> bytes:
        self.fetched += 1
        return super().fetch(path, offset, size)

    def warm(self, path: str, offset: int, size: int) -> None:
        return None


def view(ids: list[str]) -> Command:
    return make_request(codes.VIEW_MESSAGE_BY_ID, 0, {"offset": str(int(ids[7][-16:], 16))})


def query(ids: list[str]) -> Command:
    ext = {"topic": "T", "key": "k1", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(1 << 60)}
    return make_request(codes.QUERY_MESSAGE, 0, ext)


def of_queue(code: int, **more: str) -> Callable[[list[str]], Command]:
    return lambda ids: make_request(code, 0, {"topic": "T", "queueId": "0", **more})


def of_topic(code: int, **more: str) -> Callable[[list[str]], Command]:
    return lambda ids: make_request(code, 0, {"topic": "T", **more})


def send_back(ids: list[str]) -> Command:
    ext = {"offset": str(int(ids[3][-16:], 16)), "group": "g", "delayLevel": "1"}
    return make_request(codes.CONSUMER_SEND_MSG_BACK, 0, ext)


ASKED = {
    "view": view,
    "query": query,
    "search": of_queue(codes.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=TIME),
    "earliest": of_queue(codes.GET_EARLIEST_MSG_STORETIME),
    "first-offset": of_queue(codes.QUERY_CONSUMER_OFFSET, consumerGroup="new"),
    "topic-stats": of_topic(codes.GET_TOPIC_STATS_INFO),
    "consume-stats": of_topic(codes.GET_CONSUME_STATS, consumerGroup="g"),
    "time-span": of_topic(codes.QUERY_CONSUME_TIME_SPAN, group="g"),
    "units": of_queue(codes.QUERY_CONSUME_QUEUE, index="0", count="10"),
    "reset": of_topic(codes.INVOKE_BROKER_TO_RESET_OFFSET, group="g", timestamp=TIME, isForce="true"),
    "send-back": send_back,
}


def timeless(body: bytes) -> bytes:
    """Without what changes from one moment to the next."""
    return re.sub(rb'"delayTime":[0-9]+|"inTps":[^,}]+|"consumeTps":[^,}]+|"topicPutTps":[^,}]+', b"", body)


@pytest.mark.parametrize("what", ASKED)
async def test_no_request_reads_the_disk_on_the_loop(tmp_path: Path, what: str) -> None:
    ids: list[str] = []
    node = BrokerNode(options(tmp_path))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    for number in range(MESSAGES):
        sent = await client.request(send_request(properties=f"KEYS\x01k{number % 2}\x02", e="0"), PATIENCE)
        ids.append(sent.ext()["msgId"])
    client.close()
    await client.wait_closed()
    await node.stop()
    # A new start, so that queues and index are in files only.
    files = ColdDisk()
    node = BrokerNode(options(tmp_path), world=RealNodeWorld(files))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        group = make_request(codes.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, 0, body=b'{"groupName":"g"}')
        commit = of_queue(codes.UPDATE_CONSUMER_OFFSET, consumerGroup="g", commitOffset="5")([])
        assert [(await client.request(each, PATIENCE)).code for each in (group, commit)] == [0, 0]
        warm = await client.request(ASKED[what](ids), PATIENCE)
        assert warm.code == codes.SUCCESS, warm.remark
        files.cold = True
        cold = await client.request(ASKED[what](ids), PATIENCE)
        assert files.blocked == []
        assert (cold.code, cold.remark, timeless(cold.body)) == (warm.code, warm.remark, timeless(warm.body))
        assert {**cold.ext(), "queueOffset": ""} == {**warm.ext(), "queueOffset": ""}
        assert files.fetched > 0
    finally:
        files.cold = False
        client.close()
        await client.wait_closed()
        await node.stop()


async def test_requests_that_wait_for_the_disk_may_keep_so_much(tmp_path: Path) -> None:
    files = ColdDisk()
    node = BrokerNode(options(tmp_path, max_cold_read_bytes=1), world=RealNodeWorld(files))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        sent = await client.request(send_request(body=bytes(100_000)), PATIENCE)
        files.cold = True
        refused = await client.request(view([sent.ext()["msgId"]] * 8), PATIENCE)
        assert refused.code == codes.SYSTEM_BUSY
        assert "maxColdReadBytes is 1: try again later" in str(refused.remark)
        await until(lambda: node._cold_reads.kept() == 0, "what was kept to be let go")
    finally:
        files.cold = False
        client.close()
        await client.wait_closed()
        await node.stop()
