"""Two sets in one loop: while one has no master, its acting slave sends what is due to the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.layout.names import HALF_TOPIC
from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from bolide.remoting.command import Command
from proof.kit.waiting import until
from tests.broker.parts import send_request, text
from tests.node.replication.acting import ActingSet, acting, asked
from tests.node.replication.parts import same

ESCAPE: dict[str, Any] = {"enable_remote_escape": True, "transaction_check_interval": 200}
OTHER: dict[str, Any] = {"broker_name": "broker-b", "total_replicas": 1, "broker_role": "ASYNC_MASTER"}


def bodies(node: BrokerNode, topic: str) -> list[bytes]:
    """Every message of a topic at this broker."""
    found = []
    for queue_id in range(node.store.queue_ids(topic)[-1] + 1 if node.store.queue_ids(topic) else 0):
        for at, size, _ in node.store.units(topic, queue_id, 0, 1000):
            record = node.store.record_at(at, size)
            assert record is not None
            found.append(record.body)
    return sorted(found)


def sends() -> list[Command]:
    """One message of each kind that a broker stores again by itself, not due before the master is gone."""
    return [
        send_request(body=b"level", properties=text(DELAY="2", UNIQ_KEY="1", WAIT="true"), e="0"),
        send_request(body=b"timer", properties=text(TIMER_DELAY_SEC="4", UNIQ_KEY="2", WAIT="true"), e="0"),
        send_request(body=b"half", properties=text(TRAN_MSG="true", PGROUP="pg", UNIQ_KEY="3"), e="0", f="4"),
    ]


async def filled(first: BrokerNode, second: BrokerNode, *others: BrokerNode) -> None:
    """The messages are at both brokers of the first set; their topic is at the others, too."""
    for node in (first, *others):
        assert (await asked(node.address, send_request(body=b"plain"))).code == codes.SUCCESS
    for request in sends():
        assert (await asked(first.address, request)).code == codes.SUCCESS
    await same(first, second)
    await until(lambda: "T" in second.parts.topics.table)


async def test_what_is_due_without_a_master_is_delivered_by_another_set(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        first = await of.start("a", 0, **ESCAPE)
        second = await of.start("b", 1, **ESCAPE)
        other = await of.start("c", 0, **OTHER)
        await of.lists(0, 1)
        await filled(first, second, other)
        await of.stop("a")
        before = second.store.written_offset
        await until(lambda: second.parts.role.sends_away)
        await until(lambda: {b"level", b"timer"} <= set(bodies(other, "T")))
        await until(lambda: b"half" in bodies(other, HALF_TOPIC))
        assert second.store.written_offset == before, "the slave stores nothing"
        first = await of.start("a", 0, **ESCAPE)
        await of.lists(0, 1)
        await until(lambda: not second.parts.role.sends_away and first.parts.role.may_deliver)
        await until(lambda: first.parts.delay.behind()[2] == (1, 1))
        assert (await asked(first.address, send_request(body=b"after"))).code == codes.SUCCESS
        await until(lambda: b"after" in bodies(first, "T"))
        assert b"level" not in bodies(first, "T"), "the master knows what was delivered"
        assert first.parts.transactions.halves.open_count == 0, "and what was handed over"
        assert [bodies(other, "T").count(body) for body in (b"level", b"timer")] == [1, 1]


async def meanwhile(of: ActingSet, first: BrokerNode) -> BrokerNode:
    """The master returns, and has begun its work."""
    await of.lists(0, 1)
    await until(lambda: first.parts.role.may_deliver)
    return first


async def test_without_another_set_everything_waits_and_nothing_is_lost(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        first = await of.start("a", 0, **ESCAPE)
        second = await of.start("b", 1, **ESCAPE)
        await of.lists(0, 1)
        await filled(first, second)
        await of.stop("a")
        await until(lambda: second.parts.role.sends_away)
        await until(lambda: second.parts.delay._levels[1].progress.away.failures > 1)
        first = await meanwhile(of, await of.start("a", 0, **ESCAPE))
        await until(lambda: {b"level", b"timer"} <= set(bodies(first, "T")))
        assert first.parts.transactions.halves.open_count == 1


@pytest.mark.parametrize("escape", [False, True])
async def test_a_set_that_comes_later_takes_what_waits_if_that_is_allowed(tmp_path: Path, escape: bool) -> None:
    async with acting(tmp_path) as of:
        settings = {**ESCAPE, "enable_remote_escape": escape}
        first = await of.start("a", 0, **settings)
        second = await of.start("b", 1, **settings)
        await of.lists(0, 1)
        await filled(first, second)
        await of.stop("a")
        await until(lambda: second.parts.role.acting)
        other = await of.start("c", 0, **OTHER)
        assert (await asked(other.address, send_request(body=b"plain"))).code == codes.SUCCESS
        if escape:
            await until(lambda: {b"level", b"timer"} <= set(bodies(other, "T")))
            return
        first = await meanwhile(of, await of.start("a", 0, **settings))
        await until(lambda: {b"level", b"timer"} <= set(bodies(first, "T")))
        assert bodies(other, "T") == [b"plain"]
