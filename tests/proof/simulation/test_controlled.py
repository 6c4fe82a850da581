"""Sets under a controller in the simulation: elections, and what is looked at."""

from __future__ import annotations

from proof.simulation.cluster import Cluster, Simulation
from proof.simulation.controlled import TWO_MASTERS, ControlledReplicas
from proof.simulation.disk import Disk
from proof.simulation.plan import Action, Plan
from proof.simulation.run import Run, run_plan
from proof.simulation.swarm import controlled, draw, slaves_of
from tests.proof.simulation.test_replicas import plan, promote, sends


def under_a_controller(*actions: Action, seconds: float = 60.0) -> Plan:
    return plan(*actions, seconds=seconds, slaves=2, controller=1)


def test_another_machine_leads_when_the_master_is_lost_and_it_follows() -> None:
    tried = under_a_controller(*sends(1.0, 40.0), promote(20.0, down=8.0))
    report = run_plan(tried)
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1
    assert report.figures["acknowledged"] > 60
    assert run_plan(Plan.decode(tried.encode())).digest == report.digest


def test_a_master_that_is_cut_off_from_the_controller_loses_its_place() -> None:
    cut = Action(15.0, "cut", {"broker": 0, "lasts": 20.0, "ways": "both", "whom": "controller"})
    report = run_plan(under_a_controller(*sends(1.0, 40.0), cut))
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1


def test_without_its_controller_a_set_goes_on_and_a_lost_master_waits_for_it() -> None:
    gone = Action(10.0, "controller", {"how": "power", "down": 20.0, "seed": 3})
    report = run_plan(under_a_controller(*sends(1.0, 40.0), gone, promote(15.0, down=30.0)))
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1


def test_a_replica_whose_disk_is_replaced_is_another_member_that_has_everything() -> None:
    empty = Action(15.0, "empty", {"broker": 1, "down": 1.0})
    report = run_plan(under_a_controller(*sends(1.0, 40.0), empty, promote(30.0, down=5.0)))
    assert not report.findings, report.findings
    assert (report.figures["emptied"], report.figures["elections"]) == (1, 1)


def test_two_masters_of_one_epoch_are_found() -> None:
    tried = under_a_controller(*sends(1.0, 20.0), seconds=30.0)
    simulation = Simulation(tried.seed, disk=lambda name, seed: Disk(seed))
    run = Run(tried, simulation.cluster)
    replicas = run.replicas
    assert isinstance(replicas, ControlledReplicas)

    async def scenario(cluster: Cluster) -> None:
        run.faults.spawn(pretend_later(cluster))
        await run.scenario(cluster)

    async def pretend_later(cluster: Cluster) -> None:
        await cluster.sleep(10.0)
        node = replicas._node("broker-a-1")
        node.parts.role.may_write = True

    simulation.run(scenario)
    assert any(finding.promise == TWO_MASTERS for finding in run.findings)


def test_a_share_of_the_seeds_with_slaves_is_controlled() -> None:
    found = [seed for seed in range(400) if controlled(seed)]
    assert 0.05 < len(found) / 400 < 0.2
    assert all(slaves_of(seed) for seed in found)
    plans = [draw(seed, 60.0) for seed in found]
    assert all(one.cluster["controller"] == 1 for one in plans)
    assert all(one.settings["flush_disk_type"] == "SYNC_FLUSH" for one in plans)
    actions = [action for one in plans for action in one.actions]
    assert {action.text("how") for action in actions if action.do == "controller"} == {"kill", "power", "pause", "disk"}
    assert any(action.do == "cut" and action.text("whom") == "controller" for action in actions)
    assert not any("controller" in draw(seed, 60.0).cluster for seed in range(100) if not controlled(seed))
