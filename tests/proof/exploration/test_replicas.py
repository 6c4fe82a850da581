"""Small explorations: every state within few moves keeps the promises, and the ways to the interesting ones exist."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from proof.exploration.__main__ import main
from proof.exploration.replicas.bounds import Bounds
from proof.exploration.replicas.machines import State, changed, first_state, returning_state
from proof.exploration.replicas.meeting import meet
from proof.exploration.replicas.moves import moves
from proof.exploration.replicas.search import broken_promises, explore
from proof.kit.command_line import HELD


def after(*texts: str, first: State | None = None) -> State:
    """The state after these moves, each of which keeps every promise."""
    state = first_state() if first is None else first
    for text in texts:
        found = dict(moves(state, Bounds(faults=9, sends=9, losses=9)))
        assert text in found, (text, list(found))
        assert not list(broken_promises(state, found[text]))
        state = found[text]
    return state


def test_every_state_within_few_moves_keeps_the_promises() -> None:
    seen = explore(Bounds(depth=5))
    assert seen.finding is None
    assert seen.depth == 5
    assert seen.full_stops > 0
    assert seen.masters > 0
    assert seen.states > 1000


def test_every_state_near_a_replica_that_is_about_to_join_keeps_the_promises() -> None:
    seen = explore(Bounds(depth=4), returning=True)
    assert seen.finding is None
    assert seen.states > 1000


def test_a_question_from_before_a_restart_is_refused() -> None:
    asked = after("a1 asks for the set [1, 2, 3], which takes long to arrive", first=returning_state())
    assert after("the question of 1 arrives: SUCCESS", first=asked).one.in_sync == (1, 2, 3)
    restarted = after("a3 is killed", "a3 starts with its log cut at 0", "a3 registers", first=asked)
    late = after("the question of 1 arrives: CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH", first=restarted)
    assert late.one.in_sync == (1, 2)


def test_a_master_drops_the_connection_of_a_replica_that_may_have_restarted() -> None:
    restarted = ("a3 is killed, and its master does not notice", "a3 starts with its log cut at 0", "a3 registers")
    state = after(*restarted, "a1 asks who is the master", first=returning_state())
    assert not [text for text, _ in moves(state, Bounds()) if text.startswith("a1 asks for the set")]


RESTARTED = (
    "a2 is killed, and its master does not notice",
    "a2 starts",
    "a2 registers",
    "a2 asks who is the master",
    "a2 copies 0 of a1",
    "a1 asks who is the master",
)


def test_a_member_that_restarted_leaves_and_joins() -> None:
    left = after(*RESTARTED, "a1 asks for the set [1, 3]: SUCCESS")
    assert left.one.in_sync == (1, 3)
    joined = after("a2 copies 0 of a1", "a1 asks for the set [1, 2, 3]: SUCCESS", first=left)
    assert joined.one.replicas[2].joined == joined.one.replicas[2].life


def test_a_member_for_which_an_election_would_wait_is_a_finding() -> None:
    restarted = after(*RESTARTED)
    machine = restarted.machines[0]
    assert machine.sync_set is not None
    forgets = changed(machine.sync_set)
    forgets._interrupted.clear()
    without = restarted.with_machine(0, replace(machine, sync_set=forgets))
    assert "a2 is in sync, and an election would wait for it" in list(broken_promises(restarted, without))


def test_a_replica_that_is_trusted_without_a_record_is_a_finding() -> None:
    state = returning_state()
    machine = state.machines[1]
    shorter = state.with_machine(1, replace(machine, disk=machine.disk.ends_at(0)))
    assert "a2 can be elected at once without record 1, which was acknowledged" in list(broken_promises(state, shorter))


def test_a_record_is_acknowledged_once_every_member_holds_it() -> None:
    state = after("a1 stores record 1", "a2 copies 1 of a1")
    assert state.told == ()
    (text,) = (text for text, _ in moves(state, Bounds()) if text == "a3 copies 1 of a1")
    assert after("a1 stores record 1", "a2 copies 1 of a1", text).told == ((0, 1),)


def test_another_replica_leads_when_the_master_is_killed() -> None:
    state = after(
        "a1 is killed",
        "the controller looks for a master that is gone",
        "a2 asks who is the master",
        "a3 asks who is the master",
        "a3 copies 0 of a2",
    )
    assert state.one.master == 2
    assert state.machines[1].serves
    assert state.machines[2].sync_set is None


@pytest.mark.parametrize("record", [(), (7,)])
def test_a_record_that_is_gone_from_every_disk_is_a_finding(record: tuple[int, ...]) -> None:
    state = after("a1 stores record 1", "a2 copies 1 of a1", "a3 copies 1 of a1")
    machines = tuple(replace(each, disk=replace(each.disk, log=record)) for each in state.machines)
    lost = list(broken_promises(state, replace(state, machines=machines)))
    assert "record 1 was acknowledged, and no disk has it" in lost


HELD_BY_ALL = ("a1 stores record 1", "a2 copies 1 of a1", "a3 copies 1 of a1", "a2 copies 0 of a1")


def test_a_master_that_returns_with_less_waits_for_the_others() -> None:
    state = after(*HELD_BY_ALL, "a1 is killed", "a1 starts with its log cut at 0", "a1 registers")
    assert state.one.master in (2, 3)


def test_a_replica_keeps_what_its_set_holds_from_a_master_that_has_less() -> None:
    state = after(*HELD_BY_ALL)
    shorter = replace(state.machines[0], disk=state.machines[0].disk.ends_at(0))
    assert meet(state.with_machine(0, shorter), 1, 0, 0) is None


def test_the_command_prints_what_it_visited(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--depth", "3"]) == HELD
    assert "to depth 3" in capsys.readouterr().out
    assert main(["--depth", "2", "--json"]) == HELD
    assert json.loads(capsys.readouterr().out)["depth"] == 2
