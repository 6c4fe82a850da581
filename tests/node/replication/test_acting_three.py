"""Sets of three with acting masters: the smallest id that runs acts, one at a time, and a master knows what all did."""

from __future__ import annotations

from pathlib import Path

from bolide.node.broker import BrokerNode
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.node.brokers import pull_request
from tests.node.replication.acting import ActingSet, acting, asked, commit
from tests.node.replication.parts import OK, codes_of, same, send

THREE = {"total_replicas": 3, "enable_remote_escape": True}


async def begin(of: ActingSet) -> tuple[BrokerNode, BrokerNode, BrokerNode]:
    """A master and two slaves that have what it has."""
    first, second, third = [await of.start(name, number, **THREE) for number, name in enumerate("abc")]
    await of.lists(0, 1, 2)
    assert codes_of(await send(first, 10)) == OK
    for slave in (second, third):
        await same(first, slave)
        await until(lambda: "T" in slave.parts.topics.table)  # noqa: B023 # awaited here
    return first, second, third


async def acts(of: ActingSet, node: BrokerNode, *others: BrokerNode) -> None:
    """This one, which clients are shown as the master, and no other one."""
    await until(lambda: node.parts.role.acting)
    await until(lambda: not any(other.parts.role.acting for other in others))
    assert node.parts.role.may_deliver
    assert not any(other.parts.role.may_deliver for other in others)
    (broker,) = (await of.route()).broker_datas
    assert broker.broker_addrs is not None
    assert broker.broker_addrs[0] == node.address
    assert set(broker.broker_addrs.values()) == {node.address, *(other.address for other in others)}
    assert {queue.perm for queue in (await of.route()).queue_datas} == {4}


async def test_the_smallest_id_that_runs_acts(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        _, second, third = await begin(of)
        await of.stop("a")
        await acts(of, second, third)
        await of.stop("b")
        await acts(of, third)
        assert codes_of(await send(third, 1)) == {codes.SERVICE_NOT_AVAILABLE}
        assert (await asked(third.address, pull_request(offset=0))).code == codes.SUCCESS
        assert (await asked(third.address, commit(7))).code == codes.SUCCESS
        second = await of.start("b", 1, **THREE)
        await acts(of, second, third)
        first = await of.start("a", 0, **THREE)
        await of.lists(0, 1, 2)
        for slave in (second, third):
            await until(lambda: not slave.parts.role.masterless)  # noqa: B023 # awaited here
            assert not slave.parts.role.may_deliver
        known = await asked(first.address, commit(0, codes.QUERY_CONSUMER_OFFSET))
        assert known.ext()["offset"] == "7", "what the third was told, while it acted"
        assert codes_of(await send(first, 10)) == OK
        for slave in (second, third):
            await same(first, slave)


async def test_a_name_server_that_restarts_does_not_move_the_one_that_acts(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        _, second, third = await begin(of)
        await of.stop("a")
        await acts(of, second, third)
        await of.restart_names()
        await of.lists(1, 2)
        await acts(of, second, third)
        found = await asked(second.address, pull_request(offset=0))
        assert found.code == codes.SUCCESS
