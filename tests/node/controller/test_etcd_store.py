"""Controllers over a real etcd: one leads, others point to it, and a decision of one that does not fails in etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from bolide.controller.consensus import LeadershipLost, Member, StoreUnavailable
from bolide.controller.options import ControllerOptions
from bolide.controller.replica_set import StateDamaged, encode_set
from bolide.errors import ConfigError
from bolide.node.controller.etcd import changed_at, put_op
from bolide.node.controller.etcd_place import endpoints
from bolide.node.controller.etcd_store import EtcdStore
from bolide.node.controller.node import ControllerNode
from bolide.remoting import codes
from proof.kit.waiting import until
from tests.node.controller.etcd_stores import client, store
from tests.node.controller.etcds import EtcdMember, started, store_of
from tests.node.controller.kept import one_set
from tests.node.controller.running import brokers, paired

pytestmark = pytest.mark.slow
SHORT_LEASE = 10
"""For tests that may wait for the end of a lease."""


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdMember]:
    (member,) = started(tmp_path_factory.mktemp("etcd"))
    yield member
    member.kill()


async def test_a_decision_counts_only_for_the_leader_and_only_once(etcd: EtcdMember) -> None:
    async with AsyncExitStack() as life:
        first = await life.enter_async_context(store([etcd], "decisions"))
        await first.lead()
        second = await life.enter_async_context(store([etcd], "decisions", 1))
        assert await first.load() == {}
        revision = await first.change(one_set(1), 0)
        assert (await first.load())["b"] == (one_set(1), revision)
        later = await first.change(one_set(2), revision)
        with pytest.raises(LeadershipLost):
            await second.change(one_set(3), later)
        with pytest.raises(LeadershipLost, match="changed by hand"):
            await first.change(one_set(3), revision)
        assert not first.leads  # until it has read again
        await first.deposed()
        await first.lead()
        assert (await first.load())["b"] == (one_set(2), later)
        await until(lambda: len(second.leadership.peers) == 2, "both to be seen")
        assert second.leadership.leader == Member("n0", "127.0.0.1:1")
        second._leader_key = first._leader_key - 1  # it believes that it led before
        second._lives_until = first._lives_until
        with pytest.raises(LeadershipLost):
            await second.change(one_set(3), later)
        assert (await first.load())["b"] == (one_set(2), later)


async def led(store: EtcdStore) -> None:
    """As a controller does: until etcd answers."""
    while True:
        try:
            await store.lead()
            return
        except StoreUnavailable:
            await asyncio.sleep(0)


async def test_a_lease_that_is_gone_ends_the_lead(etcd: EtcdMember) -> None:
    async with store([etcd], "leases") as first:
        await first.lead()
        await client([etcd]).revoke(first._lease)
        with pytest.raises(LeadershipLost):
            await first.change(one_set(1), 0)
        await first.deposed()
        await led(first)
        assert await first.change(one_set(1), 0) > 0


async def test_a_decision_that_is_still_on_its_way_fails_once_the_leader_has_read_again(etcd: EtcdMember) -> None:
    async with store([etcd], "late") as first:
        await first.lead()
        revision = await first.change(one_set(1), 0)
        known = first._leader_key
        with pytest.raises(LeadershipLost):
            await first.change(one_set(2), revision - 1)  # of unknown fate, as after a time-out
        await first.lead()
        assert await first.load() == {"b": (one_set(1), revision)}
        of_leader = changed_at(first._leader, known)
        late = await client([etcd]).txn(
            [of_leader, changed_at(f"{first._root}sets/b", revision)],
            [put_op(f"{first._root}sets/b", encode_set(one_set(9)))],
        )
        assert not late.succeeded
        assert await first.change(one_set(2), revision) > revision


async def test_unreadable_row_is_not_overwritten(etcd: EtcdMember) -> None:
    async with store([etcd], "damaged") as first:
        await first.lead()
        await client([etcd]).txn([], [put_op("/bolide/controller/damaged/sets/b", b"{")])
        with pytest.raises(StateDamaged, match="/bolide/controller/damaged/sets/b"):
            await first.load()


async def test_many_sets_are_read_page_by_page(etcd: EtcdMember) -> None:
    puts = [put_op(f"/many/{number:04}", b"x") for number in range(1001)]
    for at in range(0, len(puts), 100):
        await client([etcd]).txn([], puts[at : at + 100])
    found = await client([etcd]).read("/many/")
    assert [entry.key for entry in found] == [f"/many/{number:04}" for number in range(1001)]


async def test_an_etcd_that_is_not_there(tmp_path: Path) -> None:
    (member,) = started(tmp_path)
    member.kill()
    async with store([member], "nobody") as first:
        with pytest.raises(StoreUnavailable, match="etcd is unavailable"):
            await first.load()
        assert not first.leads


@pytest.mark.parametrize("place", ["localhost:2379", "http://a", "http://u:p@a:1", "http://a:1/x", "http://a:0", ""])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="controllerStore"):
        endpoints(place, ControllerOptions())


@asynccontextmanager
async def controllers(members: list[EtcdMember], folder: Path, count: int) -> AsyncIterator[list[ControllerNode]]:
    made = [
        ControllerNode(
            ControllerOptions(
                listen_port=0,
                controller_store=store_of(members),
                controller_d_leger_group=folder.name,
                controller_d_leger_self_id=f"n{number}",
                config_store_path=str(folder / f"own{number}.conf"),
                leader_lease_seconds=SHORT_LEASE,
            )
        )
        for number in range(count)
    ]
    for node in made:
        await node.start()
    try:
        yield made
    finally:
        for node in made:
            await node.stop()


def leader(nodes: list[ControllerNode]) -> list[ControllerNode]:
    return [node for node in nodes if node._controller.leads]


async def test_another_controller_leads_with_the_same_state_when_the_leader_stops(tmp_path: Path) -> None:
    members = started(tmp_path / "etcd", 3)
    async with controllers(members, tmp_path, 2) as nodes:
        await until(lambda: len(leader(nodes)) == 1, "a leader")
        (first,) = leader(nodes)
        (other,) = [node for node in nodes if node is not first]
        async with (
            brokers(first, "127.0.0.1:1", "127.0.0.1:2") as (one, two),
            brokers(other, "127.0.0.1:1") as (elsewhere,),
        ):
            await paired(one, two)
            before = await one.info()
            assert (await elsewhere.elect()).code == codes.CONTROLLER_NOT_LEADER
            await until(lambda: other._store.leadership.leader is not None, "the other one to know the leader")
            metadata = (await elsewhere.ask(codes.CONTROLLER_GET_METADATA_INFO)).ext()
            assert metadata["controllerLeaderAddress"] == first.address
            assert metadata["isLeader"] == "false"
            assert sorted(metadata["peers"].rstrip(";").split(";")) == sorted(
                f"{node.options.controller_d_leger_self_id}:{node.address}" for node in nodes
            )
            members[0].kill()  # one member of etcd fewer: the others decide
            await first.stop()
            await until(lambda: leader(nodes) == [other], "the other one to lead")
            assert await elsewhere.info() == before
    for member in members[1:]:
        member.kill()


async def test_without_etcd_nothing_is_decided_and_all_is_as_it_was_afterwards(tmp_path: Path) -> None:
    (member,) = started(tmp_path / "etcd")
    async with controllers([member], tmp_path, 1) as (node,):
        await until(lambda: node._controller.leads, "the lead")
        async with brokers(node, "127.0.0.1:1", "127.0.0.1:2") as (one, two):
            await paired(one, two)
            before = await one.info()
            member.kill()
            assert (await two.elect()).code in (codes.CONTROLLER_MASTER_STILL_EXIST, codes.CONTROLLER_NOT_LEADER)
            await until(lambda: not node._controller.leads, "the lead to end")
            assert (await one.ask(codes.CONTROLLER_GET_REPLICA_INFO)).code == codes.CONTROLLER_NOT_LEADER
            again = member.start_again()
            await until(lambda: node._controller.leads, "the lead to be had again")
            assert await one.info() == before
    again.kill()
