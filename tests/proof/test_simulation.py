"""The simulator: drawn seeds and old failures keep every promise, and what draws, repeats and shrinks them works."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time

import pytest

from proof.mutations.mutation import ROOT, known_faults
from proof.simulation import campaign
from proof.simulation.__main__ import main
from proof.simulation.campaign import Entry, Outcome, corpus, tell_failure
from proof.simulation.plan import Action, Plan
from proof.simulation.run import Report, run_plan
from proof.simulation.shrink import Shrinker
from proof.simulation.swarm import controlled, draw, theme_of
from proof.simulation.themes import SET_THEMES, THEMES

DRAWN_S = 40.0
"""No further seed begins after this time."""
SEED_S = 60.0
"""Simulated seconds of the work and the faults of a drawn seed; what they leave takes as long as it takes."""
MOST_SEEDS = 20
TRIED = range(731_000_000, 731_000_300)
"""Seeds that were all run before: a merge is not refused by what it did not do. `make simulate` draws new ones."""


def told(report: Report, again: str) -> str:
    lines: list[str] = []
    tell_failure(report, again, lines.append)
    return "\n".join(lines)


@pytest.mark.slow
def test_drawn_seeds_keep_every_promise() -> None:
    began = time.monotonic()
    for seed in secrets.SystemRandom().sample(TRIED, MOST_SEEDS):
        report = run_plan(draw(seed, SEED_S))
        assert not report.findings, told(report, f"--seed {seed} --seeds 1 --seconds {SEED_S:g}")
        if time.monotonic() - began > DRAWN_S:
            break


@pytest.mark.slow
@pytest.mark.parametrize("entry", corpus(), ids=lambda entry: entry.name)
def test_old_failures_do_not_return(entry: Entry) -> None:
    report = run_plan(entry.plan())
    assert not report.findings, told(report, f"--corpus --only '{entry.name}'")


@pytest.mark.slow
def test_old_failures_are_found_again_when_their_mends_are_taken_out() -> None:
    """All of them: a change of the product moves what a plan meets, and a drawn part hides which plans find nothing."""
    command = [sys.executable, "-m", "proof.mutations", "--known-faults", "--corpus"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_known_fault_has_a_plan_that_finds_it() -> None:
    assert {entry.fault for entry in corpus()} - {""} == {fault.name for fault in known_faults()}


def test_a_seed_repeats_its_run() -> None:
    plan = draw(3, 20.0)
    first, again = run_plan(plan), run_plan(Plan.decode(plan.encode()))
    assert first.digest == again.digest
    assert first.figures == again.figures
    assert first.figures["acknowledged"] > 0


def test_a_plan_is_drawn_from_its_seed_and_survives_its_file() -> None:
    plan = draw(7)
    assert plan == draw(7) != draw(8)
    assert Plan.decode(plan.encode()) == plan
    assert [action.at for action in plan.actions] == sorted(action.at for action in plan.actions)
    assert str(plan.actions[0]) in plan.story()


def test_seeds_that_decide_their_time_are_quick_or_slow() -> None:
    plans = [draw(seed) for seed in range(200)]
    slow = [plan for plan in plans if plan.pace == "slow"]
    assert 20 < len(slow) < 80
    levels = {action.number("level") for plan in slow for action in plan.actions} - {0}
    assert max(levels) == 18
    assert all(plan.pace == "quick" for plan in (draw(seed, SEED_S) for seed in range(200)))


@pytest.mark.parametrize("name", sorted({**THEMES, **SET_THEMES}))
def test_a_theme_meets_its_work_with_its_faults(name: str) -> None:
    theme = {**THEMES, **SET_THEMES}[name]
    # A controller has faults of its own, which belong to no theme.
    plans = [draw(seed, SEED_S) for seed in range(1500) if theme_of(seed) == name and not controlled(seed)]
    assert len(plans) > 5
    faults = {action.do for plan in plans for action in plan.actions if action.fault}
    assert faults == set(theme.faults)
    for setting, values in theme.settings.items():
        assert {plan.settings[setting] for plan in plans} <= set(values)
    for names, of_fault in ((theme.send, False), (theme.fault, True)):
        for value, values in names.items():
            found = {a.of[value] for p in plans for a in p.actions if a.fault is of_fault and value in a.of}
            if value != "topic":  # a new topic has a name of its own, and operators have theirs
                assert found and found <= set(values), value


def test_a_failure_is_told_with_what_repeats_it() -> None:
    plan = draw(5)
    report = Report(plan, [], "d" * 32, 12.0, 1.0)
    text = told(report, "--seed 5 --seeds 1")
    assert "seed 5" in text
    assert 'make simulate ARGS="--seed 5 --seeds 1"' in text


class Needs:
    """Fails as long as these actions are there, and counts its runs."""

    def __init__(self, *needed: str) -> None:
        self.needed = set(needed)
        self.plans: list[Plan] = []

    def __call__(self, plan: Plan) -> bool:
        self.plans.append(plan)
        return self.needed <= {action.text("name") for action in plan.actions} and "old" in plan.settings


def listed(count: int) -> Plan:
    actions = [
        Action(float(at), "kill" if at % 5 == 0 else "send", {"name": f"a{at}"}) for at in range(count)
    ]  # fmt: skip
    return Plan(1, 60.0, {"old": True, "other": 3}, {}, tuple(actions))


def test_hours_with_two_replicas_in_sync_are_told_of() -> None:
    outcome = Outcome()
    one, two = (Plan(1, 7200.0, {}, {"slaves": 2, "in_sync": count}, ()) for count in (1, 2))
    for plan in (one, two, Plan(1, 7200.0, {}, {}, ())):
        outcome.add(Report(plan, [], "", plan.seconds, 60.0))
    assert outcome.figures()["two_in_sync_hours"] == 2.0
    assert outcome.line().startswith("3 seeds, 6.00 h simulated, 2.00 h of them with two in sync in 180 s of ")


def test_only_seeds_with_two_replicas_in_sync_are_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[Plan] = []

    def as_if_run(plan: Plan) -> Report:
        ran.append(plan)
        return Report(plan, [], "", plan.seconds, 60.0)

    monkeypatch.setattr(campaign, "run_plan", as_if_run)
    assert main(["--seed", "40", "--hours", "0.09", "--seconds", "60", "--two-in-sync", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["two_in_sync_hours"] == figures["hours"] == 0.1
    drawn = [draw(seed, 60.0) for seed in range(40, ran[-1].seed + 1)]
    assert ran == [plan for plan in drawn if plan.two_in_sync]
    assert len(ran) == 6 < len(drawn)


def test_a_failing_plan_becomes_small() -> None:
    needs = Needs("a3", "a10", "a41")
    small = Shrinker(needs, 500, lambda text: None).shrink(listed(60))
    assert {action.text("name") for action in small.actions} == {"a3", "a10", "a41"}
    assert small.settings == {"old": True}


def test_making_a_plan_small_ends_after_the_runs_allowed() -> None:
    needs = Needs("a3", "a10", "a41")
    shrinker = Shrinker(needs, 12, lambda text: None)
    small = shrinker.shrink(listed(60))
    assert shrinker.runs == len(needs.plans) == 12
    assert needs(small)
