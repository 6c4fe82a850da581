"""A disk that stands still: what was taken waits, what comes is refused with its reason, and all goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.testing.stalled import StallableFiles
from bolide.transport.client import ClientConnection
from tests.node.test_broker import options, pull_request, send_request


@asynccontextmanager
async def stalled(folder: Path, **more: Any) -> AsyncIterator[tuple[ClientConnection, list[asyncio.Future[Command]]]]:
    """A broker one send of which waits for a disk that stands still; the disk goes on at the end of the block."""
    files = StallableFiles()
    node = BrokerNode(options(folder, sync_flush_timeout=30_000, **more), files=files)
    await node.start()
    client = await ClientConnection.connect(node.address)
    try:
        assert (await client.request(send_request(), 5)).code == 0
        files.stall()
        parked = [client.start(send_request(), 25)]
        while not files.waiting.is_set():
            await asyncio.sleep(0.001)
        yield client, parked
        assert not any(send.done() for send in parked)
        files.go_on()
        assert {(await send).code for send in parked} == {0}
        assert (await client.request(send_request(), 5)).code == 0
    finally:
        files.go_on()
        client.close()
        await client.wait_closed()
        await node.stop()


async def refused_with(client: ClientConnection, parked: list[asyncio.Future[Command]], begins: str) -> None:
    """Send until it is answered at once, which must be with this remark; what is taken before that joins `parked`."""
    async with asyncio.timeout(10):
        while True:
            future = client.start(send_request(), 25)
            pulled = await client.request(pull_request(), 5)  # whatever is answered at once is answered before this
            assert pulled.code in (codes.SUCCESS, codes.PULL_NOT_FOUND, codes.PULL_RETRY_IMMEDIATELY)
            if future.done():
                break
            parked.append(future)
    answer = future.result()
    assert (answer.code, (answer.remark or "")[: len(begins)]) == (codes.SYSTEM_BUSY, begins)


@pytest.mark.parametrize(
    ("begins", "settings"),
    [
        ("[TIMEOUT_CLEAN_QUEUE]broker busy", {"os_page_cache_busy_time_out_mills": 60_000}),
        ("[REJECTREQUEST]system busy", {"os_page_cache_busy_time_out_mills": 100}),
        ("[OVERLOAD]system busy", {"send_thread_pool_queue_capacity": 3, "wait_time_mills_in_send_queue": 60_000}),
        ("[OVERLOAD]system busy", {"max_parked_send_bytes": 600, "wait_time_mills_in_send_queue": 60_000}),
    ],
    ids=["age", "stall", "count", "bytes"],
)
def test_a_stalled_disk_refuses_sends(tmp_path: Path, begins: str, settings: dict[str, int]) -> None:
    async def scenario() -> None:
        limits = {"os_page_cache_busy_time_out_mills": 60_000, **settings}
        async with stalled(tmp_path, **limits) as (client, parked):
            await refused_with(client, parked, begins)
            beat = await client.request(make_request(codes.GET_BROKER_RUNTIME_INFO, 0), 5)
            assert beat.code == 0  # only what would be stored is refused

    asyncio.run(scenario())


def test_a_send_that_waited_too_long_for_its_turn_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = BrokerNode(options(tmp_path))
        await node.start()
        turns = node._turns
        assert turns.lag(1_000) == 0
        assert turns.lag(1_150) == 150  # a second socket of the same turn
        turns._end_of_turn()
        assert turns.lag(1_200) == 0
        await node.stop()

    asyncio.run(scenario())


def test_one_topic_and_one_group_too_many_are_refused_with_a_sentence(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = BrokerNode(options(tmp_path, max_topics=20, max_groups=11))
        await node.start()
        client = await ClientConnection.connect(node.address)
        try:
            answers = [await client.request(send_request(f"T{number}"), 5) for number in range(20)]
            taken = [answer for answer in answers if answer.code == 0]
            assert len(node.parts.topics.table) == 20 and 0 < len(taken) < 20
            assert "maxTopics is 20" in (answers[-1].remark or "")
            assert (await client.request(send_request("T0"), 5)).code == 0
            pulls = [await client.request(pull_request("T0", consumerGroup=f"g{n}"), 5) for n in range(9)]
            assert len(node.parts.groups.table) == 11
            assert "maxGroups is 11" in (pulls[-1].remark or "")
        finally:
            client.close()
            await client.wait_closed()
            await node.stop()

    asyncio.run(scenario())


def test_one_held_pull_too_many_is_told_to_come_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = BrokerNode(options(tmp_path, max_held_requests=1))
        await node.start()
        client = await ClientConnection.connect(node.address)
        try:
            assert (await client.request(send_request(), 5)).code == 0
            first = client.start(pull_request(offset=1, sys_flag=6, suspend=20_000), 25)
            second = await client.request(pull_request(offset=1, sys_flag=6, suspend=20_000), 5)
            assert second.code == codes.FLOW_CONTROL and "maxHeldRequests" in (second.remark or "")
            assert not first.done()
        finally:
            client.close()
            await client.wait_closed()
            await node.stop()

    asyncio.run(scenario())
