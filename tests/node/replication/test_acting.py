"""Sets with acting masters in one loop: who reads where while the master is away, and what it knows when it returns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from bolide.remoting import codes
from proof.kit.waiting import until
from tests.node.brokers import pull_request
from tests.node.replication.acting import acting, asked, commit
from tests.node.replication.parts import OK, codes_of, same, send


@pytest.mark.parametrize("compatible", [True, False])
async def test_a_slave_acts_while_the_master_is_away_which_then_knows_what_was_consumed(
    tmp_path: Path, compatible: bool
) -> None:
    async with acting(tmp_path) as of:
        more = {"compatible_with_old_name_srv": compatible}
        first = await of.start("a", 0, **more)
        second = await of.start("b", 1, **more)
        await of.lists(0, 1)
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        await until(lambda: "T" in second.parts.topics.table)
        assert (await asked(second.address, pull_request(offset=10))).code == codes.PULL_RETRY_IMMEDIATELY
        await of.stop("a")
        await until(lambda: second.parts.role.acting)
        assert codes_of(await send(second, 1)) == {codes.SERVICE_NOT_AVAILABLE}
        (broker,) = (await of.route()).broker_datas
        assert broker.broker_addrs == {0: second.address}, "clients are shown a master"
        assert {queue.perm for queue in (await of.route()).queue_datas} == {4}
        found = await asked(second.address, pull_request(offset=0))
        assert found.code == codes.SUCCESS and found.ext()["suggestWhichBrokerId"] == "0"
        assert (await asked(second.address, pull_request(offset=10))).code == codes.PULL_NOT_FOUND, "readers stay"
        assert (await asked(second.address, commit(7))).code == codes.SUCCESS
        held = asyncio.create_task(asked(second.address, pull_request(offset=10, sys_flag=6, suspend=600_000)))
        await until(lambda: second._waiters.count == 1)
        first = await of.start("a", 0, **more)
        await of.lists(0, 1)
        assert (await held).code == codes.PULL_RETRY_IMMEDIATELY, "readers go back"
        known = await asked(first.address, commit(0, codes.QUERY_CONSUMER_OFFSET))
        assert known.ext()["offset"] == "7"
        await until(lambda: not second.parts.role.masterless)
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        assert {queue.perm for queue in (await of.route()).queue_datas} == {6}


async def test_a_master_registers_once_the_slave_that_runs_follows(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        # The name server does not know the master yet: the slave is told by the master alone where its log is.
        second = await of.start("b", 1)
        await of.lists(1)
        await until(lambda: second.parts.role.acting)
        first = await of.start("a", 0, ha_send_heartbeat_interval=60_000)
        await of.lists(0, 1)
        assert first._replication.followed_by("127.0.0.1")
        assert codes_of(await send(first, 5)) == OK
        await same(first, second)


async def test_a_slave_that_never_follows_does_not_keep_its_master_away(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        second = await of.start("b", 1, ha_master_address="127.0.0.1:1")
        await until(lambda: second.parts.role.acting)
        first = await of.start("a", 0)
        await of.lists(0, 1)
        assert not first._replication.followed_by("127.0.0.1")
        assert codes_of(await send(first, 5)) == OK


async def test_a_broker_that_a_name_server_took_for_dead_registers_again(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        first = await of.start("a", 0)
        second = await of.start("b", 1)
        await of.lists(0, 1)
        names = of.names._server
        (registered,) = [live for known, live in names.tables.live.items() if known.addr == first.address]
        names.channel_closed(registered.channel_id, of.names._clock.now())
        async with asyncio.timeout(30):  # registerNameServerPeriod is 60 s
            await of.lists(0, 1)
        await until(lambda: not second.parts.role.masterless)


async def test_sends_wait_for_as_many_as_are_in_sync_or_are_refused(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        first = await of.start("a", 0, in_sync_replicas=2, total_replicas=1)
        await until(lambda: first.parts.role.short)
        (refused,) = await send(first, 1)
        assert (refused.code, refused.remark) == (codes.SYSTEM_ERROR, "in-sync replicas not enough")
        second = await of.start("b", 1, total_replicas=1)
        await until(lambda: not first.parts.role.short)
        assert codes_of(await send(first, 10)) == OK
        await same(first, second)
        await of.stop("b")
        await until(lambda: first.parts.role.short)
        assert codes_of(await send(first, 1)) == {codes.SYSTEM_ERROR}


async def test_sends_wait_for_fewer_where_fewer_are_there(tmp_path: Path) -> None:
    async with acting(tmp_path) as of:
        auto = {"in_sync_replicas": 2, "enable_auto_in_sync_replicas": True, "total_replicas": 1}
        first = await of.start("a", 0, **auto)
        assert codes_of(await send(first, 5)) == OK
        second = await of.start("b", 1, total_replicas=1)
        await of.lists(0, 1)
        await until(lambda: first._replication.side is not None and first._replication.side.in_sync(0) == 1)
        assert codes_of(await send(first, 5)) == OK
        assert int(second.store.written_offset) == int(first.store.written_offset)
        await of.stop("b")
        await until(lambda: first._replication.side is not None and first._replication.side.in_sync(0) == 0)
        assert codes_of(await send(first, 5)) == OK
