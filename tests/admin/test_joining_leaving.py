"""A replica joins its set, and one that is gone for good leaves it: what may be lost is said first."""

from __future__ import annotations

import pytest

from bolide.admin.cluster import MemberRow
from bolide.admin.joining import NotJoined, joined, may_leave
from bolide.client import ResponseError
from bolide.client.messages.errors import NoQueue
from bolide.errors import BolideError, ConnectionLost
from bolide.remoting import codes
from bolide.remoting.bodies.route import ClusterInfo
from bolide.testing.broker import Broker
from tests.admin.failing_requests import FailingAdmin


def member(
    broker_id: int,
    *,
    master: bool = False,
    in_sync: bool = True,
    alive: bool = True,
    end: int = 700,
    confirmed: int = 900,
) -> MemberRow:
    return MemberRow("broker-a", broker_id, f"10.0.1.{broker_id}:1", 3, master, in_sync, alive, end, confirmed)


def gone(broker_id: int, *, in_sync: bool = True, confirmed: int = 900) -> MemberRow:
    return member(broker_id, in_sync=in_sync, alive=False, end=-1, confirmed=confirmed)


def test_replica_may_leave_while_set_has_a_master() -> None:
    assert may_leave("broker-a", [member(1, master=True), gone(2)], 2) == ""


def test_replica_out_of_sync_may_leave() -> None:
    assert may_leave("broker-a", [member(1), gone(2, in_sync=False)], 2) == ""


def test_loss_is_what_the_set_confirmed_and_no_other_log_reaches() -> None:
    said = may_leave("broker-a", [gone(1), member(2, end=650), member(3)], 1)
    assert said.endswith("the set confirmed messages up to 900, and the others reach 700: 200 bytes")
    said = may_leave("broker-a", [gone(1), member(2, end=950)], 1)
    assert said.endswith("the others reach 950: 0 bytes")


def test_loss_is_unknown_without_the_confirmed_offset_or_another_log() -> None:
    said = may_leave("broker-a", [gone(1, confirmed=-1), member(2, confirmed=-1)], 1)
    assert said.endswith("what only its log has is lost")
    assert may_leave("broker-a", [gone(1), gone(2)], 1).endswith("and no other replica is alive")


def test_only_replica_in_sync_leaves_the_choice_of_a_master_to_the_operator() -> None:
    said = may_leave("broker-a", [gone(1), member(2, in_sync=False, end=880)], 1)
    assert "choose the next master by name" in said and said.endswith("the others reach 880: 20 bytes")


def test_master_living_and_unknown_replicas_may_not_leave() -> None:
    members = [member(1, master=True), member(2)]
    for number, kind, why in ((1, NotJoined, "is the master"), (2, NotJoined, "is alive"), (3, NoQueue, "has 1, 2")):
        with pytest.raises(kind, match=why):
            may_leave("broker-a", members, number)


class SecondTime(FailingAdmin):
    """An admin object that finds the cluster once, before its errors begin."""

    def __init__(self, namesrv: str, *errors: BolideError) -> None:
        super().__init__(namesrv)
        self.later = list(errors)

    async def cluster_info(self) -> ClusterInfo:
        found = await super().cluster_info()
        self.errors.setdefault(codes.GET_BROKER_CLUSTER_INFO, self.later)
        return found


LOST = ConnectionLost("the name server is away")
BUSY = ResponseError("the broker is busy", codes.SYSTEM_BUSY)


async def test_wait_for_a_replica_outlives_requests_that_fail_for_a_moment(bolide_broker: Broker) -> None:
    lags: list[int] = []
    failures: list[str] = []
    async with SecondTime(bolide_broker.namesrv_addr, LOST) as admin:
        admin.errors[codes.GET_BROKER_CONFIG] = [BUSY]
        await joined(admin, "broker-a", 0, 60, lags.append, lambda error: failures.append(str(error)))
        assert admin.pending == []
    assert failures == ["the name server is away", "the broker is busy"] and lags == []


async def test_wait_for_a_replica_ends_with_its_cause(bolide_broker: Broker) -> None:
    async with SecondTime(bolide_broker.namesrv_addr, LOST) as admin:
        with pytest.raises(NotJoined, match=r"replica 0 cannot be checked \(the name server is away\) after 0 s"):
            await joined(admin, "broker-a", 0, 0, lambda lag: None)
        admin.errors[codes.GET_BROKER_CONFIG] = [ResponseError("no right", codes.NO_PERMISSION)]
        with pytest.raises(ResponseError, match="no right"):
            await joined(admin, "broker-a", 0, 3600, lambda lag: None)
    async with FailingAdmin("127.0.0.1:1") as nowhere:
        with pytest.raises(ConnectionLost, match="127.0.0.1:1"):
            await joined(nowhere, "broker-a", 0, 3600, lambda lag: None)
