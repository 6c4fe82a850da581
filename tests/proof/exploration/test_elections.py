"""Every order of steps of a replica set, up to a depth that finds each rule of elections taken out."""

from __future__ import annotations

import pytest

from proof.exploration.elections import Rules, explore


@pytest.mark.parametrize("rules", [Rules(True), Rules(False)])
def test_no_order_of_steps_elects_a_log_without_confirmed_messages(rules: Rules) -> None:
    seen = explore(7, rules)
    assert (seen.broken, seen.trace) == ("", ())
    assert seen.states > 5000
    assert seen.counts["a master is elected"] > 500 and seen.counts["a copy is refused"] > 20
