"""Visits every state breadth first and holds each against the promises of a replica set."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from bolide.controller.liveness import steady
from proof.exploration.replicas.bounds import Bounds
from proof.exploration.replicas.machines import Machine, State, first_state, has_connection, returning_state
from proof.exploration.replicas.moves import follows, moves
from proof.exploration.ways import Ways


class Finding(Struct, frozen=True):
    """A promise that does not hold, and the shortest way to it."""

    promise: str
    trace: tuple[str, ...]


class Visited(Struct):
    """What an exploration has seen."""

    states: int = 0
    moves: int = 0
    depth: int = 0
    """Every state within so many moves was visited."""
    finding: Finding | None = None
    full_stops: int = 0
    """States in which no machine runs."""
    masters: int = 0
    """States in which two machines take themselves for the master."""


def explore(
    bounds: Bounds, progress: Callable[[Visited, int], None] | None = None, *, returning: bool = False
) -> Visited:
    """Visit the states within the bounds, and stop at the first finding. `progress` gets the width of each level.

    With `returning` the third replica is about to be a member again; else all replicas are members of a set without a
    record."""
    first = returning_state() if returning else first_state()
    ways = Ways(hash(first.key()))
    level, seen = [first], Visited(states=1)
    while level and seen.depth < bounds.depth:
        following: list[State] = []
        for state in level:
            own = hash(state.key())
            for text, after in moves(state, bounds):
                seen.moves += 1
                key = hash(after.key())
                if not ways.add(key, own, text):
                    continue
                _count(seen, after)
                broken = next(broken_promises(state, after), None)
                if broken is not None:
                    seen.finding = Finding(broken, ways.trace(key))
                    return seen
                following.append(after)
        level = following
        seen.depth += 1
        if progress is not None:
            progress(seen, len(level))
    return seen


def _count(seen: Visited, state: State) -> None:
    seen.states += 1
    seen.full_stops += not any(machine.runs for machine in state.machines)
    seen.masters += sum(machine.leads for machine in state.machines) > 1


def broken_promises(before: State, state: State) -> Iterator[str]:
    """Yield what a move broke."""
    for old, new in zip(before.machines, state.machines, strict=True):
        if old.runs and new.runs and new.disk.log[: old.disk.confirmed] != old.disk.log[: old.disk.confirmed]:
            yield f"{new.address} cut records that its set has confirmed"
    trusted = {each for each, heard in state.living().items() if steady(state.one, each, heard)}
    for offset, record in state.told:
        if not any(_has(machine, offset, record) for machine in state.machines):
            yield f"record {record} was acknowledged, and no disk has it"
        for machine in state.machines:
            if machine.own_id in trusted.intersection(state.one.electable) and not _has(machine, offset, record):
                yield f"{machine.address} can be elected at once without record {record}, which was acknowledged"
            newest = machine.standing is not None and machine.standing.epoch == state.one.master_epoch
            if machine.serves and newest and not _has(machine, offset, record):
                yield f"{machine.address} serves as the master without record {record}, which was acknowledged"
    for machine in state.machines:
        if _at_rest(state, machine):
            for slave in state.machines:
                if _is_settled(state, machine, slave) and slave.own_id not in trusted:
                    yield f"{slave.address} is in sync, and an election would wait for it"


def _at_rest(state: State, master: Machine) -> bool:
    """Return whether this is the newest master, has the set of the controller, and requests no other set."""
    sync_set, standing, one = master.sync_set, master.standing, state.one
    return (
        sync_set is not None
        and standing is not None
        and state.on_its_way is None
        and standing.epoch == one.master_epoch
        and (sync_set.members, sync_set.set_epoch) == (frozenset(one.in_sync), one.in_sync_epoch)
        and sync_set.question is None
        and sync_set.wanted(0) is None
    )


def _is_settled(state: State, master: Machine, slave: Machine) -> bool:
    """Return whether a member follows this master over the connection of its last start, and the controller hears
    it."""
    assert master.sync_set is not None
    return (
        slave.own_id in master.sync_set.members
        and slave.own_id in state.living()
        and follows(slave, master)
        and has_connection(master.sync_set, slave)
    )


def _has(machine: Machine, offset: int, record: int) -> bool:
    return machine.disk.log[offset : offset + 1] == (record,)
