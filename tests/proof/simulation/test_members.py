"""Members of controlled sets that return with less, with other bytes or as copies, and whose disks hang."""

from __future__ import annotations

import asyncio

import pytest

from proof.ledger import Finding
from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.controlled import TRUNCATED, ControlledReplicas
from proof.simulation.core import ACCEPTS, BOUND_S, HealthyCore
from proof.simulation.disk import Disk
from proof.simulation.member_plans import MEMBER_FAULTS
from proof.simulation.plan import Action, Plan, Value
from proof.simulation.run import Report, Run, run_plan
from proof.simulation.stored_bytes import flip_in_log, flip_in_table
from proof.simulation.swarm import MEMBERS, draw, kind_of
from tests.proof.simulation.plans import plan, run_beside, sends


def broken(at: float, do: str, member: int = 1, **of: Value) -> Action:
    return Action(at, do, {"broker": 0, "member": member, "how": "kill", "down": 1.0, "seed": 1, "place": 0.5, **of})


def members(*actions: Action, seconds: float = 30.0, core: bool = False) -> Plan:
    return plan(*sends(1.0, 20.0), *actions, seconds=seconds, slaves=2, controller=1, members=True, core=core)


def held(tried: Plan) -> Report:
    report = run_plan(tried)
    assert not report.findings, report.findings
    return report


def test_a_store_that_is_restored_from_the_life_of_its_last_start_catches_up() -> None:
    report = held(members(broken(8.0, "copy"), broken(15.0, "restore")))
    assert (report.figures["damaged"], report.figures["set_aside"]) == (1, 0)


def test_an_older_store_is_refused_and_joins_as_a_new_member() -> None:
    restart = Action(10.0, "kill", {"broker": 1, "down": 0.1})
    report = held(members(broken(6.0, "copy"), restart, broken(18.0, "restore")))
    assert (report.figures["damaged"], report.figures["set_aside"]) == (1, 1)
    assert report.rare["a copy of a store is refused"] == 1


def test_a_copy_is_refused_while_its_original_runs() -> None:
    report = held(members(broken(10.0, "clone", lasts=8.0)))
    assert report.rare["a copy of a store is refused"] == 1
    assert report.figures["set_aside"] == 0


def test_the_original_of_a_copy_that_replaced_it_joins_as_a_new_member() -> None:
    report = held(members(broken(10.0, "clone", instead=True, lasts=8.0)))
    assert report.figures["set_aside"] == 1


def test_a_damaged_log_is_repaired_and_joins_as_a_new_member() -> None:
    report = held(members(broken(12.0, "rot", what="log", lasts=3.0)))
    assert (report.figures["damaged"], report.figures["set_aside"]) == (1, 1)


def test_a_table_with_a_flipped_bit_is_noticed() -> None:
    held(members(broken(12.0, "rot", what="table", lasts=3.0)))


def test_the_shortened_member_that_starts_first_is_not_elected() -> None:
    stop = broken(15.0, "stop_all", less="restore", down0=6.0, down1=0.1, down2=4.0)
    report = held(members(broken(8.0, "copy"), stop))
    assert report.rare["an election after a full stop waits for members"] == 1
    assert report.figures["elections"] == 1


def test_a_master_whose_disk_hangs_resigns_and_the_others_accept_messages() -> None:
    hang = broken(8.0, "hang", member=-1, calls="sync", lasts=45.0)
    tried = members(hang, seconds=60.0, core=True)
    report = held(tried)
    assert report.rare["a master resigns because its disk hangs"] == 1
    assert report.figures["cores"] == 1
    assert run_plan(Plan.decode(tried.encode())).digest == report.digest


@pytest.mark.parametrize("how", ["freeze", "link"])
def test_a_gray_member_does_not_keep_the_others_from_accepting_messages(how: str) -> None:
    gray = broken(8.0, "gray", how=how, frozen=4.0, well=1.0, lasts=45.0)
    assert held(members(gray, seconds=60.0, core=True)).figures["cores"] == 1


@pytest.mark.parametrize(("every", "found"), [(1, False), (40, True)])
def test_a_set_that_accepts_too_little_is_found(every: int, found: bool) -> None:
    findings: list[Finding] = []

    async def scenario(cluster: Cluster) -> None:
        probes = iter(range(1000))

        async def probe() -> bool:
            return next(probes) % every == 0

        core = HealthyCore(cluster, probe, findings)
        watch = asyncio.ensure_future(core.watch())
        core.broken("a member")
        await cluster.sleep(BOUND_S + 40.0)
        core.healed()
        watch.cancel()

    Simulation(1).run(scenario)
    assert [finding.promise for finding in findings] == [ACCEPTS] * found


@pytest.mark.parametrize(("gap", "found"), [(3.0, False), (5.0, True)])
def test_only_a_gap_that_elects_another_master_is_time_without_service(gap: float, found: bool) -> None:
    findings: list[Finding] = []

    async def scenario(cluster: Cluster) -> None:
        async def probe() -> bool:
            await cluster.sleep(gap)
            return True

        core = HealthyCore(cluster, probe, findings)
        watch = asyncio.ensure_future(core.watch())
        core.broken("a member")
        await cluster.sleep(BOUND_S + 40.0)
        core.healed()
        watch.cancel()

    Simulation(1).run(scenario)
    assert [finding.promise for finding in findings] == [ACCEPTS] * found


def test_an_operator_removes_a_damaged_master_that_took_office() -> None:
    """Only the master is in sync, the others reject its log: the operator removes it after its heartbeats expire."""
    stop = broken(12.0, "stop_all", member=0, less="fill", how="power", place=0.95, down0=0.1, down1=0.8, down2=0.6)
    report = held(members(stop))
    assert report.rare["a replica finds other bytes in its master's log"] == 2
    assert (report.figures["set_aside"], report.figures["switched"], report.figures["elections"]) == (1, 1, 2)


def test_a_member_that_truncates_what_its_set_holds_is_found() -> None:
    async def pretend_later(run: Run, cluster: Cluster) -> None:
        await cluster.sleep(10.0)
        replicas = run.replicas
        assert isinstance(replicas, ControlledReplicas)
        disk, confirmed = replicas._held["broker-a-1"]
        assert confirmed > 0
        replicas._held["broker-a-1"] = (disk, confirmed + 10_000)

    run = run_beside(members(seconds=15.0), pretend_later)
    assert TRUNCATED in {finding.promise for finding in run.findings}


def test_bits_flip_in_bodies_and_tables_only() -> None:
    disk = Disk(1)
    assert flip_in_log(disk, 0.5) == flip_in_table(disk, 0.5) == ""


def test_seeds_reach_every_fault_of_members() -> None:
    found = [draw(seed) for seed in range(6_000) if kind_of(seed) == MEMBERS]
    assert {action.do for one in found for action in one.actions} >= MEMBER_FAULTS
    assert {one.cluster["core"] for one in found} == {True, False}
