"""A master asks its controller for another set of replicas in sync: which answers say that it was not taken."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from bolide.errors import BolideError
from bolide.node.replication.broker_identity import BrokerIdentity
from bolide.node.replication.controllers import Controllers
from bolide.node.replication.membership import Membership
from bolide.remoting import codes
from bolide.remoting.bodies.base import encode_body
from bolide.remoting.bodies.controller import BrokerReplicasInfo, SyncStateSet
from bolide.remoting.command import Command, make_request, make_response
from bolide.replication.standing import Standing, Told
from bolide.replication.sync_set import SyncSet
from bolide.testing.files import SimulatedFiles
from bolide.world.real import THE_WORLD
from tests.node.brokers import options


class Answering(Controllers):
    """Controllers that answer each question with the next of these codes, and know of no addresses."""

    def __init__(self, *answers: int) -> None:
        super().__init__(("127.0.0.1:1",), THE_WORLD, None, None)
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.members: list[int] = []
        self.set_epoch = 0

    def beat(self, ext: dict[str, str]) -> None:
        self.asked.append(ext)

    async def ask(self, code: int, ext: dict[str, str], body: bytes = b"") -> Command:
        self.asked.append(ext)
        if code == codes.CONTROLLER_GET_SYNC_STATE_DATA:
            return make_response(make_request(code, 0, ext), codes.SUCCESS, body=encode_body(BrokerReplicasInfo()))
        state = {"masterBrokerId": "1", "masterAddress": "127.0.0.1:2", "masterEpoch": "1"}
        told = encode_body(SyncStateSet(self.members, self.set_epoch))
        return make_response(make_request(code, 0, ext), self.answers.pop(0), "no", ext=state, body=told)


class Part:
    """A master whose replica 2 has all of its log."""

    def __init__(self) -> None:
        self.sync_set = SyncSet(1, frozenset({1}), 1, 0, 15_000)
        self.sync_set.connected(7, 2, False, 0)
        self.sync_set.reported(7, 2, 100, 100, 0)
        self.disconnected: list[frozenset[int]] = []
        self.confirmed = 100

    async def lead(self, told: Told, own_id: int) -> None:
        """Never asked for."""

    async def follow(self, told: Told, own_id: int) -> None:
        """Never asked for."""

    async def lose(self) -> None:
        """Never asked for."""

    def hung(self) -> bool:
        return False

    def now(self) -> int:
        return 0

    def set_changed(self) -> None:
        """Nobody is served."""

    def disconnect(self, replicas: frozenset[int]) -> None:
        self.disconnected.append(replicas)

    def stands(self) -> tuple[int, int, int]:
        return 100, self.confirmed, 1


def membership(folder: Path, part: Part, controllers: Controllers, **more: Any) -> Membership:
    identity = BrokerIdentity(SimulatedFiles(), "/store/brokerIdentity", "DefaultCluster", "broker-a")
    made = Membership(
        options(folder, **more), "127.0.0.1:2", THE_WORLD, identity, controllers, part, lambda error: None,
        logging.getLogger("test"),
    )  # fmt: skip
    made.standing = Standing(1)
    made.standing.took(Told(1, "127.0.0.1:2", 1, frozenset({1}), 1))
    return made


@pytest.mark.parametrize(
    ("code", "counts"),
    [
        (codes.SYSTEM_ERROR, True),  # "the decision may not be kept": etcd did not say
        (codes.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED, True),  # "equal": an earlier question was taken
        (codes.CONTROLLER_INVALID_REPLICAS, False),
        (codes.CONTROLLER_FENCED_MASTER_EPOCH, False),
        (codes.SYSTEM_BUSY, False),
    ],
)
async def test_a_replica_counts_until_the_controller_has_certainly_not_taken_it(
    tmp_path: Path, code: int, counts: bool
) -> None:
    """A send that is answered without it would be lost if the controller elected it."""
    part = Part()
    member = membership(tmp_path, part, Answering(code))
    if counts:
        with pytest.raises(BolideError, match="may have been taken: no"):
            await member._set.alter()
    else:
        assert await member._set.alter() == "no"
    assert (2 in part.sync_set.counted) is counts


@pytest.mark.parametrize(("set_epoch", "disconnected"), [(1, []), (2, [frozenset({2})])])
async def test_a_replica_outside_the_set_reports_again_after_any_replica_restarted(
    tmp_path: Path, set_epoch: int, disconnected: list[frozenset[int]]
) -> None:
    """The connection may belong to a stopped process, whose successor lost some of the reported bytes."""
    part, controllers = Part(), Answering(codes.SUCCESS)
    controllers.members, controllers.set_epoch = [1], set_epoch
    await membership(tmp_path, part, controllers)._look()
    assert part.disconnected == disconnected
    assert part.sync_set.set_epoch == set_epoch


async def test_a_replica_that_left_the_set_reports_again(tmp_path: Path) -> None:
    part, controllers = Part(), Answering(codes.SUCCESS)
    part.sync_set = SyncSet(1, frozenset({1, 2}), 1, 0, 15_000)
    controllers.members, controllers.set_epoch = [1], 2
    assert await membership(tmp_path, part, controllers)._set.alter() == ""
    assert part.disconnected == [frozenset({2})]


@pytest.mark.parametrize(("members", "confirmed"), [({1}, "100"), ({1, 2}, "80")])
async def test_master_takes_office_with_what_its_set_has_confirmed(
    tmp_path: Path, members: set[int], confirmed: str
) -> None:
    """A master that resigned takes office again with the members that it had; they may lack the end of its log."""
    part, controllers = Part(), Answering(codes.SUCCESS)
    part.confirmed = 80
    waits = {"enable_controller_mode": True, "all_ack_in_sync_state_set": True, "controller_addr": "127.0.0.1:1"}
    member = membership(tmp_path, part, controllers, **waits, namesrv_addr="127.0.0.1:3")
    await member._take_office(Told(1, "127.0.0.1:2", 1, frozenset(members), 1))
    assert controllers.asked[-1]["bolideConfirmed"] == confirmed


async def test_heartbeats_are_numbered(tmp_path: Path) -> None:
    """So a controller ignores recorded ones."""
    controllers = Answering()
    member = membership(tmp_path, Part(), controllers)
    for _ in range(3):
        member._beat()
    assert [ext["bolideBeat"] for ext in controllers.asked] == ["1", "2", "3"]
