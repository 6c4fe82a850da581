"""A disk that hangs without an error: a master resigns, and a replica is not elected, until the disk answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bolide.node.broker import BrokerNode
from bolide.node.machine.node_world import RealNodeWorld
from bolide.remoting import codes
from bolide.testing.stalled import StallableFiles
from proof.kit.waiting import until
from tests.node.replication.controlled import ControlledSet, controlled
from tests.node.replication.parts import OK, codes_of, same, send

SETTINGS = {
    "in_sync_replicas": 2,
    "min_in_sync_replicas": 2,
    "flush_disk_type": "SYNC_FLUSH",
    "unsettled_patience": 500,
}


@pytest.fixture
def disk() -> StallableFiles:
    return StallableFiles()


@contextmanager
def stalled(disk: StallableFiles) -> Iterator[None]:
    """Let a disk hang; at the end it continues."""
    disk.stall()
    try:
        yield
    finally:
        disk.go_on()


def epoch(of: ControlledSet) -> int:
    """The epoch of the master, by the controller."""
    return of.controller._controller.sets["broker-a"].value.master_epoch


def lives(of: ControlledSet, node: BrokerNode) -> bool:
    """Whether the controller hears a broker."""
    one = of.controller._controller.sets["broker-a"].value
    membership = node._replication.membership
    assert membership is not None
    alive = of.controller._controller.live.alive_in(one, of.controller._clock.now())
    return membership.standing.own_id in alive


async def test_a_master_whose_disk_hangs_resigns_and_the_others_go_on(tmp_path: Path, disk: StallableFiles) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", RealNodeWorld(disk), **SETTINGS)
        await of.leads(first)
        second = await of.start("b", **SETTINGS)
        third = await of.start("c", **SETTINGS)
        await of.all_in_sync(1, 2, 3)
        with stalled(disk):
            waits = asyncio.create_task(send(first, 1))
            await until(lambda: second.parts.role.may_write or third.parts.role.may_write)
            assert codes_of(await waits) == {codes.SERVICE_NOT_AVAILABLE}, "the next master may have it, or not"
            assert not first.parts.role.may_write and not lives(of, first)
            await of.all_in_sync(2, 3)
            master = of.master()
            assert codes_of(await send(master, 50)) == OK
        await until(lambda: lives(of, first), "the first one to be heard again")
        await of.all_in_sync(1, 2, 3)
        await same(master, first)
        assert of.master() is master and epoch(of) == 2


async def test_a_master_resigns_although_no_controller_answers(tmp_path: Path, disk: StallableFiles) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", RealNodeWorld(disk), **SETTINGS)
        await of.leads(first)
        await of.start("b", **SETTINGS)
        await of.all_in_sync(1, 2)
        await of.controller.stop()
        with stalled(disk):
            waits = asyncio.create_task(send(first, 1))
            await until(lambda: not first.parts.role.may_write)
            assert codes_of(await waits) == {codes.SERVICE_NOT_AVAILABLE}


async def test_a_master_alone_keeps_its_office(tmp_path: Path, disk: StallableFiles) -> None:
    async with controlled(tmp_path) as of:
        alone = {**SETTINGS, "in_sync_replicas": 1, "min_in_sync_replicas": 1}
        first = await of.start("a", RealNodeWorld(disk), **alone)
        await of.leads(first)
        with stalled(disk):
            waits = asyncio.create_task(send(first, 1))
            switching = first._replication.side
            assert switching is not None
            await until(lambda: switching._settling.hung)
            await until(lambda: not switching._begins)
            assert first.parts.role.may_write and lives(of, first)
        assert codes_of(await waits) == OK and epoch(of) == 1


async def test_a_replica_whose_disk_hangs_is_not_elected(tmp_path: Path, disk: StallableFiles) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", **SETTINGS)
        await of.leads(first)
        second = await of.start("b", RealNodeWorld(disk), **SETTINGS)
        third = await of.start("c", **SETTINGS)
        await of.all_in_sync(1, 2, 3)
        with stalled(disk):
            waits = asyncio.create_task(send(first, 1))
            await until(lambda: not lives(of, second))
            await of.stop("a")
            await of.leads(third)
            assert await asyncio.gather(waits, return_exceptions=True)
        await of.all_in_sync(2, 3)
        assert codes_of(await send(third, 20)) == OK
        await same(third, second)


async def test_an_election_that_the_disk_does_not_survive_makes_no_master(tmp_path: Path, disk: StallableFiles) -> None:
    async with controlled(tmp_path) as of:
        first = await of.start("a", RealNodeWorld(disk), **SETTINGS)
        await of.leads(first)
        await of.start("b", **SETTINGS)
        await of.all_in_sync(1, 2)
        switching = first._replication.side
        assert switching is not None
        with stalled(disk):
            waits = asyncio.create_task(send(first, 1))
            await until(lambda: switching._settling.hung and not first.parts.role.may_write)
            membership = first._replication.membership
            assert membership is not None
            told = await membership._told()
            with pytest.raises(Exception, match="the disk of the store hangs"):
                await switching.lead(told, 1)
            assert not first.parts.role.may_write
            await switching.lose()
            assert first.store.replicated_offset >= 0, "another master may lack the end of its log"
        await waits
