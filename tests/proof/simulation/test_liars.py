"""An attacker at every port: rejected requests, and logs that survive where nothing can be rejected."""

from __future__ import annotations

import pytest

from proof.simulation import liars
from proof.simulation.cluster import Cluster
from proof.simulation.held_prefixes import KEPT
from proof.simulation.liars import CAPTURED, CLOSED, LIES, OPEN, POWERFUL
from proof.simulation.plan import Action, Plan, Value
from proof.simulation.rare_places import LIAR_FOLLOWED, LIAR_REFUSED
from proof.simulation.run import Report, Run, run_plan
from proof.simulation.swarm import CONTROLLED, ETCD, draw, kind_of
from tests.proof.simulation.plans import plan, run_beside, sends


def lie(at: float, port: str, how: str, **of: Value) -> Action:
    return Action(at, "lie", {"port": port, "how": how, "broker": 0, "seed": 5, "lasts": 3.0, "says": "silent", **of})


def lied(life: str, *lies: Action, **cluster: Value) -> Plan:
    return plan(*sends(1.0, 20.0), *lies, slaves=2, controller=1, liars=life, **cluster)


def everything(powerful: bool) -> list[Action]:
    """Each lie, one a second."""
    found = [(port, how) for port, names in LIES.items() for how in names]
    if powerful:
        found += [(port, how) for port, names in POWERFUL.items() for how in names]
    return [lie(2.0 + at, port, how, broker=at, seed=at) for at, (port, how) in enumerate(found)]


def kept(report: Report) -> Report:
    assert not report.findings, report.findings
    assert report.figures["acknowledged"] > 0
    return report


def test_a_closed_cluster_rejects_every_lie() -> None:
    replays = [lie(30.0 + at, "controller", "replay", says=how, lasts=8.0) for at, how in enumerate(liars.REPLAYS)]
    report = kept(run_plan(lied(CLOSED, *everything(True), *replays)))
    assert report.figures["acknowledged"] == report.figures["sent"]
    assert report.figures["lies_followed"] == 0
    assert all(report.rare[LIAR_REFUSED[port]] > 0 for port in LIES if port != "broker")


def test_an_open_cluster_keeps_every_promise_against_lies_that_it_recognizes() -> None:
    report = kept(run_plan(lied(OPEN, *everything(False))))
    assert report.figures["acknowledged"] == report.figures["sent"]
    assert all(report.rare[LIAR_REFUSED[port]] > 0 for port in LIES if port != "broker")


@pytest.mark.parametrize("says", ["nothing", "shorter"])
def test_a_captured_set_keeps_its_logs(says: str) -> None:
    report = kept(run_plan(lied(CAPTURED, lie(15.0, "controller", "takeover", says=says, lasts=30.0))))
    assert report.rare[LIAR_FOLLOWED] == 3
    assert report.rare["a replica refuses to truncate its log"] > 0


def test_a_name_server_cannot_lead_a_replica_to_another_log() -> None:
    forged = lie(15.0, "name server", "log", says="shorter", lasts=30.0)
    started = Action(16.0, "restart", {"broker": 1, "down": 1.0})
    report = kept(run_plan(lied(CAPTURED, forged, started)))
    assert report.figures["acknowledged"] == report.figures["sent"]
    assert report.rare[LIAR_FOLLOWED] == 0


def test_an_attacker_acknowledges_in_the_name_of_a_member() -> None:
    forged = [lie(5.0 + 3.0 * at, "log", "member", broker=0, seed=at, lasts=10.0) for at in range(4)]
    lost = Action(14.0, "promote", {"broker": 0, "how": "kill", "down": 3.0, "seed": 1, "back": 3.0})
    kept(run_plan(lied(CAPTURED, *forged, lost)))


@pytest.mark.parametrize("life", liars.LIVES)
def test_runs_with_an_attacker_are_deterministic(life: str) -> None:
    one = lied(life, *everything(life != OPEN))
    assert run_plan(one).digest == run_plan(one).digest


def test_other_bytes_that_the_set_holds_are_a_finding() -> None:
    async def damage(run: Run, cluster: Cluster) -> None:
        known = run.attacker.prefixes.known
        await cluster.until(lambda: any(each.held for each in known.values()), "the set holds something")
        for node in known:
            known[node] = known[node]._replace(crc=1)

    run = run_beside(lied(CAPTURED), damage)
    assert {finding.promise for finding in run.findings} == {KEPT}


def test_a_campaign_draws_every_kind_of_life_and_lie() -> None:
    seeds = [seed for seed in range(20_000) if kind_of(seed) in (CONTROLLED, ETCD) and liars.life_of(seed)]
    plans = [draw(seed, 40.0) for seed in seeds]
    assert {each.cluster["liars"] for each in plans} == set(liars.LIVES)
    told = {(each.of["port"], each.of["how"]) for one in plans for each in one.actions if each.do == "lie"}
    assert told >= {(port, how) for table in (LIES, POWERFUL) for port, names in table.items() for how in names}
