"""A disk that stands still: what was taken waits, what comes is refused with its reason, and all goes on afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bolide.node.broker import BrokerNode
from bolide.node.loop.clock import Clock
from bolide.node.machine.node_world import RealNodeWorld
from bolide.remoting import codes
from bolide.remoting.command import Command, make_request
from bolide.store.disk.files import RealFiles
from bolide.testing.stalled import StallableFiles
from bolide.transport.client import ClientConnection
from bolide.world.clocks import steady_ms
from proof.kit.waiting import PATIENCE
from tests.node.brokers import SYNCED, options, pull_request, send_request

PATIENT = {"max_parked_send_millis": 60_000}


@asynccontextmanager
async def stalled(folder: Path, **more: Any) -> AsyncIterator[tuple[ClientConnection, list[asyncio.Future[Command]]]]:
    """A broker with a send that waits for a stalled disk; the disk resumes at the end of the block."""
    files = StallableFiles()
    node = BrokerNode(options(folder, **SYNCED, **more), world=RealNodeWorld(files))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        assert (await client.request(send_request(), PATIENCE)).code == 0
        files.stall()
        parked = [client.start(send_request(), PATIENCE)]
        while not files.waiting.is_set():
            await asyncio.sleep(0.001)
        yield client, parked
        assert not any(send.done() for send in parked)
        files.go_on()
        assert {(await send).code for send in parked} == {0}
        assert (await client.request(send_request(), PATIENCE)).code == 0
    finally:
        files.go_on()
        client.close()
        await client.wait_closed()
        await node.stop()


async def refused_with(client: ClientConnection, parked: list[asyncio.Future[Command]], begins: str) -> None:
    """Send until it is answered at once, which must be with this remark; what is taken before that joins `parked`."""
    async with asyncio.timeout(PATIENCE):
        while True:
            future = client.start(send_request(), PATIENCE)
            # Whatever is answered at once is answered before this.
            pulled = await client.request(pull_request(), PATIENCE)
            assert pulled.code in (codes.SUCCESS, codes.PULL_NOT_FOUND, codes.PULL_RETRY_IMMEDIATELY)
            if future.done():
                break
            parked.append(future)
    answer = future.result()
    assert (answer.code, (answer.remark or "")[: len(begins)]) == (codes.SYSTEM_BUSY, begins)


@pytest.mark.parametrize(
    ("begins", "settings"),
    [
        ("[REJECTREQUEST]system busy", {"max_parked_send_millis": 100}),
        ("[OVERLOAD]system busy", {"send_thread_pool_queue_capacity": 3}),
        ("[OVERLOAD]system busy", {"max_parked_send_bytes": 600}),
    ],
    ids=["age", "count", "bytes"],
)
async def test_a_stalled_disk_refuses_sends(tmp_path: Path, begins: str, settings: dict[str, int]) -> None:
    limits = {**PATIENT, **settings}
    async with stalled(tmp_path, **limits) as (client, parked):
        await refused_with(client, parked, begins)
        beat = await client.request(make_request(codes.GET_BROKER_RUNTIME_INFO, 0), PATIENCE)
        assert beat.code == 0  # only what would be stored is refused


class SlowReads(RealFiles):
    """What a pull reads from a log takes its time: each time the clock goes 100 ms on."""

    took = 0.0

    def read_warm(self, handle: int, size: int, offset: int) -> bytes | None:
        self.took += 0.1
        return super().read_warm(handle, size, offset)

    def view_warm(self, handle: int, size: int, offset: int) -> memoryview | None:
        return None  # all that is read comes through `read_warm`


@pytest.mark.parametrize(
    ("limit", "begins"),
    [
        ("wait_time_mills_in_send_queue", "[TIMEOUT_CLEAN_QUEUE]broker busy"),
        ("os_page_cache_busy_time_out_mills", "[REJECTREQUEST]system busy"),
    ],
)
async def test_a_send_that_waited_too_long_for_its_turn_is_refused(tmp_path: Path, limit: str, begins: str) -> None:
    files = SlowReads()
    clock = Clock(steady=lambda: steady_ms() + int(files.took * 1000))
    node = BrokerNode(
        options(tmp_path, **{**PATIENT, limit: 100, "tail_cache_bytes": 0}), world=RealNodeWorld(files, clock)
    )
    await node.start()
    clients = [await ClientConnection.connect(node.address, PATIENCE) for _ in range(2)]
    try:
        assert (await clients[0].request(send_request(), PATIENCE)).code == 0
        for _ in range(100):
            asked = [[client.start(each(), PATIENCE) for each in (pull_request, send_request)] for client in clients]
            answers = sorted([await send for _, send in asked], key=lambda answer: answer.code)
            assert [(await pull).code for pull, _ in asked] == [codes.SUCCESS] * 2
            # Where both are read in one turn, the second's waits for the first's pull, whichever is the first.
            if answers[1].code != codes.SUCCESS:
                break
        assert [answer.code for answer in answers] == [codes.SUCCESS, codes.SYSTEM_BUSY]
        assert (answers[1].remark or "").startswith(begins)
    finally:
        for client in clients:
            client.close()
            await client.wait_closed()
        await node.stop()


async def test_the_wait_is_counted_within_a_turn(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path))
    await node.start()
    turns = node._turns
    assert turns.lag(1_000) == 0
    assert turns.lag(1_150) == 150  # a second socket of the same turn
    turns._end_of_turn()
    assert turns.lag(1_200) == 0
    await node.stop()


async def test_one_topic_and_one_group_too_many_are_refused_with_a_sentence(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path, max_topics=20, max_groups=11))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        answers = [await client.request(send_request(f"T{number}"), PATIENCE) for number in range(20)]
        taken = [answer for answer in answers if answer.code == 0]
        assert len(node.parts.topics.table) == 20 and 0 < len(taken) < 20
        assert "maxTopics is 20" in (answers[-1].remark or "")
        assert (await client.request(send_request("T0"), PATIENCE)).code == 0
        pulls = [await client.request(pull_request("T0", consumerGroup=f"g{n}"), PATIENCE) for n in range(9)]
        assert len(node.parts.groups.table) == 11
        assert "maxGroups is 11" in (pulls[-1].remark or "")
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()


async def test_one_held_pull_too_many_is_told_to_come_again(tmp_path: Path) -> None:
    node = BrokerNode(options(tmp_path, max_held_requests=1))
    await node.start()
    client = await ClientConnection.connect(node.address, PATIENCE)
    try:
        assert (await client.request(send_request(), PATIENCE)).code == 0
        first = client.start(pull_request(offset=1, sys_flag=6, suspend=60_000), 2 * PATIENCE)
        second = await client.request(pull_request(offset=1, sys_flag=6, suspend=60_000), PATIENCE)
        assert second.code == codes.FLOW_CONTROL and "maxHeldRequests" in (second.remark or "")
        assert not first.done()
    finally:
        client.close()
        await client.wait_closed()
        await node.stop()
