"""Sets under a controller in the simulation: elections, and what is looked at."""

from __future__ import annotations

from bolide.node.controller.etcd_store import EtcdStore
from bolide.node.controller.node import ControllerNode
from proof.simulation.cluster import Cluster
from proof.simulation.controlled import TWO_ACKNOWLEDGE, TWO_LEADERS, TWO_MASTERS, ControlledReplicas
from proof.simulation.plan import Action, Plan
from proof.simulation.run import Run, run_plan
from proof.simulation.swarm import controlled, draw, slaves_of
from tests.proof.simulation.plans import plan, promote, run_beside, sends


def under_a_controller(*actions: Action, seconds: float = 60.0) -> Plan:
    return plan(*actions, seconds=seconds, slaves=2, controller=1)


def test_another_machine_leads_when_the_master_is_lost_and_it_follows() -> None:
    tried = under_a_controller(*sends(1.0, 40.0), promote(20.0, down=8.0))
    report = run_plan(tried)
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1
    assert report.figures["judged"] >= report.figures["acknowledged"] > 60
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


def over_etcd(*actions: Action, seconds: float = 60.0) -> Plan:
    return plan(*actions, seconds=seconds, slaves=2, controller=2, etcd=3)


def test_another_controller_leads_when_the_first_is_lost_and_elects() -> None:
    gone = [
        Action(10.0 + 15.0 * at, "controller", {"how": "power", "down": 13.0, "which": at, "seed": 3}) for at in (0, 1)
    ]
    report = run_plan(over_etcd(*sends(1.0, 40.0), *gone, promote(26.0, down=8.0)))
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1
    assert report.figures["leaders"] > 1


def test_a_member_of_etcd_that_is_lost_is_not_missed() -> None:
    gone = Action(10.0, "etcd", {"how": "kill", "down": 60.0, "which": 0})
    report = run_plan(over_etcd(*sends(1.0, 40.0), gone, promote(20.0, down=8.0)))
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1


def test_without_a_majority_of_etcd_nobody_is_elected_until_it_is_back() -> None:
    gone = [Action(10.0, "etcd", {"how": "power", "down": 30.0, "which": at, "seed": at}) for at in (0, 1)]
    report = run_plan(over_etcd(*sends(1.0, 40.0), *gone, promote(15.0, down=50.0), seconds=80.0))
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1


def test_a_controller_that_was_cut_off_from_etcd_does_not_lead_any_more() -> None:
    cut = [Action(10.0, "etcd", {"how": "cut", "lasts": 20.0, "which": at, "ways": "both", "whom": "controller"})
           for at in range(3)]  # fmt: skip
    report = run_plan(over_etcd(*sends(1.0, 40.0), *cut, promote(20.0, down=8.0)))
    assert not report.findings, report.findings
    assert report.figures["elections"] == 1


def test_two_controllers_that_are_sure_that_they_lead_are_found() -> None:
    async def pretend_later(run: Run, cluster: Cluster) -> None:
        await cluster.sleep(10.0)
        stores = []
        for name in run.controllers:
            node = cluster.nodes[name]
            assert isinstance(node, ControllerNode)
            assert isinstance(node._store, EtcdStore)
            stores.append(node._store)
        for store in stores:
            store._leader_key = store._leader_key or 1

    run = run_beside(over_etcd(*sends(1.0, 20.0), seconds=30.0), pretend_later)
    assert any(finding.promise == TWO_LEADERS for finding in run.findings)


def test_two_masters_of_one_epoch_are_found() -> None:
    async def pretend_later(run: Run, cluster: Cluster) -> None:
        await cluster.sleep(10.0)
        replicas = run.replicas
        assert isinstance(replicas, ControlledReplicas)
        node = replicas._node("broker-a-1")
        node.parts.role.may_write = True

    run = run_beside(under_a_controller(*sends(1.0, 20.0), seconds=30.0), pretend_later)
    assert any(finding.promise == TWO_MASTERS for finding in run.findings)


def test_an_acknowledgement_of_another_machine_than_the_one_that_led_is_found() -> None:
    async def pretend_later(run: Run, cluster: Cluster) -> None:
        await cluster.sleep(35.0)
        kept = run.senders[0].kept
        # The first master, in the epoch of the second, as if it had not heard that it lost its place.
        (_, first), (name, last) = kept[0], kept[-1]
        kept.append((name, first[:16] + last[16:]))

    run = run_beside(under_a_controller(*sends(1.0, 40.0), promote(20.0, down=8.0)), pretend_later)
    assert [finding.promise for finding in run.findings] == [TWO_ACKNOWLEDGE]
    assert run.replicas.figures()["judged"] > 60


def test_a_share_of_the_seeds_with_slaves_is_controlled() -> None:
    found = [seed for seed in range(400) if controlled(seed)]
    assert 0.05 < len(found) / 400 < 0.2
    assert all(slaves_of(seed) for seed in found)
    plans = [draw(seed, 60.0) for seed in found]
    assert {one.cluster["controller"] for one in plans} == {1, 2, 3}
    assert all(("etcd" in one.cluster) is (one.cluster["controller"] > 1) for one in plans)
    assert all(one.settings["flush_disk_type"] == "SYNC_FLUSH" for one in plans)
    actions = [action for one in plans for action in one.actions]
    ways = {"kill", "power", "pause", "disk", "clock"}
    assert {action.text("how") for action in actions if action.do == "controller"} == ways
    over_one = [action for one in plans if "etcd" in one.cluster for action in one.actions]
    assert {action.text("how") for action in over_one if action.do == "etcd"} == {"kill", "power", "pause", "cut"}
    assert not any(action.text("how") == "disk" for action in over_one)
    assert any(action.do == "cut" and action.text("whom") == "controller" for action in actions)
    assert not any("controller" in draw(seed, 60.0).cluster for seed in range(100) if not controlled(seed))
