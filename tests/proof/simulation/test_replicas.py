"""Sets of a master and its slaves in the simulation: what is looked at, and what an operator does to them."""

from __future__ import annotations

from proof.simulation.cluster import Cluster
from proof.simulation.disk import Disk
from proof.simulation.plan import Action, Plan
from proof.simulation.replicas import LOG, machines
from proof.simulation.run import Run, run_plan
from proof.simulation.swarm import draw, slaves_of, theme_of
from proof.simulation.themes import SET_THEMES
from tests.proof.simulation.plans import plan, promote, run_beside, sends


def test_a_slave_is_promoted_and_the_old_master_follows_it() -> None:
    tried = plan(*sends(1.0, 40.0), promote(20.0))
    report = run_plan(tried)
    assert not report.findings, report.findings
    assert report.figures["promotions"] == 1
    assert run_plan(Plan.decode(tried.encode())).digest == report.digest


def test_a_master_that_returns_with_a_tail_of_its_own_is_refused_and_emptied() -> None:
    cut = Action(19.0, "cut", {"broker": 0, "lasts": 30.0, "ways": "both", "whom": "set"})
    report = run_plan(plan(*sends(1.0, 40.0), cut, promote(21.0), in_sync=1))
    assert not report.findings, report.findings
    assert (report.figures["promotions"], report.figures["refusals"], report.figures["emptied"]) == (1, 1, 1)


def test_a_slave_that_is_emptied_has_everything_again() -> None:
    empty = [Action(at, "empty", {"broker": 0, "down": 1.0}) for at in (15.0, 30.0)]
    report = run_plan(plan(*sends(1.0, 40.0), *empty, slaves=2))
    assert not report.findings, report.findings
    assert report.figures["emptied"] == 2


def test_consumers_read_from_a_slave_while_there_is_no_master() -> None:
    kill = Action(20.0, "kill", {"broker": 0, "down": 25.0})
    report = run_plan(plan(*sends(1.0, 40.0), kill, Action(19.5, "member", {"which": 0, "down": 2.0})))
    assert not report.findings, report.findings
    assert report.figures["kills"] == 1


def test_a_byte_that_a_slave_has_otherwise_is_found() -> None:
    async def flip_later(run: Run, cluster: Cluster) -> None:
        await cluster.sleep(10.2)
        disk = cluster.disks["broker-a-1"]
        assert isinstance(disk, Disk)
        disk.flip(f"/store/commitlog/{0:020d}", 300, 0)
        run.replicas.forget_looks()

    run = run_beside(plan(*sends(1.0, 20.0), seconds=30.0), flip_later)
    assert any(finding.promise == LOG and "offset 300" in finding.detail for finding in run.findings)


def test_machines_of_sets_come_masters_first() -> None:
    assert machines(["broker-a", "broker-b"], 1) == ["broker-a", "broker-b", "broker-a-1", "broker-b-1"]


def test_seeds_with_slaves_reach_every_theme_of_sets() -> None:
    found = {theme_of(seed) for seed in range(400) if slaves_of(seed)}
    assert found == {"", *SET_THEMES}
    plans = [draw(seed, 60.0) for seed in range(400) if slaves_of(seed)]
    assert {action.do for one in plans for action in one.actions} >= {"promote", "empty"}
    assert all("slaves" not in draw(seed, 60.0).cluster for seed in range(50) if not slaves_of(seed))
