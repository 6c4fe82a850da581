"""Rare places are counted, and a campaign that misses one fails."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from proof.simulation.__main__ import main
from proof.simulation.campaign import Outcome
from proof.simulation.plan import Action
from proof.simulation.rare_places import (
    FULL_STOP,
    LIAR_PLACES,
    LOGGED,
    LONG,
    MEMBER_PLACES,
    PLACES,
    RarePlaces,
    rarest,
    to_reach,
    too_rare,
)
from proof.simulation.run import run_plan
from tests.proof.simulation.plans import plan, sends


def test_a_repeated_record_is_counted_for_each_start_of_a_process() -> None:
    rare = RarePlaces()
    place = next(place for place in LOGGED if place.once)
    for process in ("broker-a 101", "broker-a 101", "broker-a 102"):
        rare.logged(process, f"before {place.texts[0]} after")
    rare.logged("broker-a 101", "another record")
    assert rare.counts == {place.name: 2}


def test_a_record_that_is_not_repeated_counts_each_time() -> None:
    rare = RarePlaces()
    place = next(place for place in LOGGED if not place.once)
    for _ in range(2):
        rare.logged("broker-a 101", place.texts[0])
    assert rare.counts == {place.name: 2}


def test_places_below_the_least_are_named() -> None:
    counts = dict.fromkeys(PLACES, 20)
    assert too_rare(counts, 20) == ""
    assert too_rare({**counts, FULL_STOP: 19}, 20) == f'rare places were reached fewer than 20 times: "{FULL_STOP}" 19'


def test_progress_names_the_place_that_was_reached_the_fewest_times() -> None:
    outcome = Outcome(members=1, rare=Counter({**dict.fromkeys(MEMBER_PLACES, 7), MEMBER_PLACES[2]: 3}))
    assert f"0 failed, rarest place: 3 times {MEMBER_PLACES[2]} (" in outcome.line()
    assert "rarest" not in Outcome().line()
    assert rarest({}, ()) == ""


def test_a_campaign_must_reach_the_places_of_its_seeds() -> None:
    assert to_reach(LONG - 1, LONG - 1) == ()
    assert to_reach(LONG, 0) == MEMBER_PLACES
    assert to_reach(0, LONG) == LIAR_PLACES


def test_an_election_after_a_full_stop_is_counted() -> None:
    stops = [Action(10.0, "kill", {"broker": at, "down": 2.0 + at}) for at in range(3)]
    report = run_plan(plan(*sends(1.0, 20.0), *stops, slaves=2, controller=1))
    assert not report.findings, report.findings
    assert report.rare[FULL_STOP] == 1


def test_a_campaign_that_misses_a_rare_place_fails(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seed", "1", "--seeds", "1", "--seconds", "5"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rare"] == {}
    assert main([*arguments, "--rare", "1"]) == 1
    assert f'FAILED: rare places were reached fewer than 1 times: "{FULL_STOP}" 0' in capsys.readouterr().out
