"""Every order of steps of a replica set, up to a depth that finds each rule of elections taken out."""

from __future__ import annotations

import json

import pytest

from proof.exploration.__main__ import main
from proof.exploration.elections import Rules, explore
from proof.kit.command_line import HELD, WRONG_USE


@pytest.mark.parametrize("rules", [Rules(True), Rules(False)])
def test_no_order_of_steps_elects_a_log_without_confirmed_messages(rules: Rules) -> None:
    seen = explore(7, rules)
    assert (seen.broken, seen.trace) == ("", ())
    assert seen.states > 5000
    assert seen.counts["a master is elected"] > 500 and seen.counts["a copy is refused"] > 20


def test_the_command_prints_a_line_for_each_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elections", "--depth", "2"]) == HELD
    assert capsys.readouterr().out.count("to a depth of 2") == 2
    assert main(["elections", "--depth", "2", "--json"]) == HELD
    assert [json.loads(line)["depth"] for line in capsys.readouterr().out.splitlines()] == [2, 2]


def test_bounds_of_a_set_are_wrong_for_elections() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["elections", "--sends", "2"])
    assert stopped.value.code == WRONG_USE
