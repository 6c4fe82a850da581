"""Every order of steps of one replica set under a controller, up to a depth, with the controller's own decisions.

Three replicas write, copy, confirm, join and leave the set, die and return. One of them returns with less: with a log
whose end was lost, or as an older copy of its store. The steps call `controller.decisions`; the logs, and the messages
that the set has confirmed, are a model. A replica that follows cuts its log to its master's, as RocketMQ's does.

These rules must hold: a new master has every confirmed message, a store with an older token never registers, and no
second address registers as a replica that lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec.structs import replace

from bolide.controller import decisions
from bolide.controller.election import Terms
from bolide.controller.liveness import Heartbeat
from bolide.controller.replica_set import Office, Replica, ReplicaSet, encode_set
from bolide.remoting import codes
from bolide.remoting.bodies.controller import SyncStateSet
from bolide.remoting.headers.controller import (
    AlterSyncStateSetRequestHeader,
    RegisterBrokerToControllerRequestHeader,
)
from bolide.remoting.replica_claims import NOT_KNOWN, Claims
from proof.exploration.ways import Ways

CLUSTER: Final = "C"
NAME: Final = "broker-a"
IDS: Final = (1, 2, 3)
LONGEST_LOG: Final = 2
MOST_STARTS: Final = 2
"""Of each replica after its first one."""
MOST_EPOCHS: Final = 6

Log = tuple[int, ...]
"""The epoch of each message."""


class Store(NamedTuple):
    """What is on a replica's disk: its log, its newest epoch, and the token of its last start."""

    log: Log = ()
    epoch: int = 1
    life: str = ""


class Machine(NamedTuple):
    """One replica."""

    store: Store
    up: bool = True
    starts: int = 0
    leads: int = 0
    """The epoch that it leads; 0 for none."""
    members: tuple[int, ...] = ()
    """Who counts for it as a master."""
    set_epoch: int = 0
    follows: int = 0
    """The epoch whose master it follows, with a log that is the beginning of that one's."""
    copy: Store | None = None
    """An older copy of its store."""
    damaged: bool = False


class State(NamedTuple):
    """Everything."""

    kept: bytes
    """The set as the controller keeps it, for comparison."""
    machines: tuple[Machine, ...]
    confirmed: Log
    """The longest log that a set has confirmed."""
    one: ReplicaSet | None

    @property
    def set(self) -> ReplicaSet:
        """The set as the controller keeps it."""
        assert self.one is not None
        return self.one

    def of(self, broker_id: int) -> Machine:
        """One replica."""
        return self.machines[broker_id - 1]

    def with_machine(self, broker_id: int, machine: Machine) -> State:
        """The state with another replica."""
        changed = (*self.machines[: broker_id - 1], machine, *self.machines[broker_id:])
        return self._replace(machines=changed)

    def with_set(self, one: ReplicaSet | None) -> State:
        """The state after a decision; None changes nothing."""
        return self if one is None else self._replace(one=one, kept=encode_set(one))


class Broken(Exception):
    """What must hold does not."""


@dataclass
class Explored:
    """What an exploration has seen."""

    states: int = 0
    depth: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """How often each rare step was taken."""
    broken: str = ""
    trace: tuple[str, ...] = ()


class Rules(NamedTuple):
    """What varies from one exploration to another."""

    waits_forever: bool = True
    """No bound ends a wait. Otherwise each one is over immediately, and the confirmed offset is known."""


def begin() -> State:
    """Replica 1 is the master of epoch 1, and all three are in sync; each is at its first start."""
    one = ReplicaSet(
        cluster=CLUSTER, name=NAME, next_id=4, master=1, master_epoch=1, in_sync=IDS, in_sync_epoch=3, elected=True,
        replicas={each: Replica(address(each), f"{address(each)};1", life(each, 0), life(each, 0)) for each in IDS},
        office=Office(1, 1),
    )  # fmt: skip
    machines = tuple(
        Machine(
            Store(life=life(each, 0)),
            leads=int(each == 1),
            follows=int(each != 1),
            members=IDS if each == 1 else (),
            set_epoch=3 if each == 1 else 0,
        )
        for each in IDS
    )
    return State(encode_set(one), machines, (), one)


def address(broker_id: int) -> str:
    """Where a replica is."""
    return f"10.0.1.{broker_id}:1"


def life(broker_id: int, start: int) -> str:
    """The token of a start."""
    return f"{broker_id}-{start}"


def explore(depth: int, rules: Rules) -> Explored:
    """Take every step from every state, breadth first, up to `depth` steps or the first fault."""
    first = begin()
    seen = Explored(states=1)
    known = Ways(_key(first))
    edge = [first]
    for level in range(1, depth + 1):
        after: list[State] = []
        for state in edge:
            try:
                for step, found in steps(state, rules, seen.counts):
                    if known.add(_key(found), _key(state), step):
                        after.append(found)
            except Broken as error:
                seen.broken, seen.trace = str(error), known.trace(_key(state))
                seen.states, seen.depth = len(known), level
                return seen
        seen.states, seen.depth = len(known), level
        edge = after
    return seen


def _key(state: State) -> State:
    return state._replace(one=None)


def steps(state: State, rules: Rules, counts: dict[str, int]) -> Iterator[tuple[str, State]]:
    """Every step that can be taken. Raises `Broken`."""
    for broker_id in IDS:
        machine = state.of(broker_id)
        if machine.up:
            _no_other_registers(state, broker_id)
            if machine.leads:
                yield from _of_master(state, broker_id, machine)
            yield from _looks(state, broker_id, machine, rules, counts)
            yield f"kill {broker_id}", _killed(state, broker_id, machine)
            if machine.copy is None and broker_id == 2:
                copied = machine._replace(copy=machine.store)
                yield f"copy the store of {broker_id}", state.with_machine(broker_id, copied)
        else:
            yield from _returns(state, broker_id, machine, counts)
    if state.set.master is not None and state.set.master not in living(state) and living(state):
        decision = decisions.elect_master(state.set, living(state), None, _terms(state, rules))
        yield "elect", _elected(state, decision, rules, counts)


def living(state: State) -> dict[int, Heartbeat]:
    """Who gives signs of life with its last token."""
    found: dict[int, Heartbeat] = {}
    for broker_id in IDS:
        machine = state.of(broker_id)
        if machine.up and state.set.replicas[broker_id].life == machine.store.life:
            found[broker_id] = heartbeat = Heartbeat(broker_id, 0)
            heartbeat.life, heartbeat.epoch = machine.store.life, machine.store.epoch
            heartbeat.max_offset = len(machine.store.log)
    return found


def _terms(state: State, rules: Rules) -> Terms:
    if rules.waits_forever:
        return Terms(longest_wait=0)
    return Terms(waited=1, longest_wait=1, confirmed=len(state.confirmed) or NOT_KNOWN, synced=True)


def _of_master(state: State, broker_id: int, machine: Machine) -> Iterator[tuple[str, State]]:
    """A master writes, sends, confirms, and changes its set."""
    store = machine.store
    if len(store.log) < LONGEST_LOG:
        written = store._replace(log=(*store.log, machine.leads), epoch=machine.leads)
        yield f"{broker_id} writes", state.with_machine(broker_id, machine._replace(store=written))
    holders = {broker_id: len(store.log)}
    for other in IDS:
        slave = state.of(other)
        if other == broker_id or not slave.up or slave.follows != machine.leads:
            continue
        holders[other] = len(slave.store.log)
        if len(slave.store.log) < len(store.log):
            copied = slave.store._replace(log=store.log[: len(slave.store.log) + 1], epoch=machine.leads)
            yield f"{broker_id} sends to {other}", state.with_machine(other, slave._replace(store=copied))
        if other not in machine.members and len(slave.store.log) == len(store.log):
            yield from _alters(state, broker_id, machine, (*machine.members, other))
    confirmed = store.log[: min(holders.get(member, 0) for member in machine.members)]
    if len(confirmed) > len(state.confirmed):
        yield f"{broker_id} confirms", state._replace(confirmed=confirmed)
    for member in machine.members:
        if member not in holders:
            yield from _alters(state, broker_id, machine, tuple(each for each in machine.members if each != member))


def _alters(state: State, broker_id: int, machine: Machine, wanted: tuple[int, ...]) -> Iterator[tuple[str, State]]:
    header = AlterSyncStateSetRequestHeader(broker_name=NAME, master_broker_id=broker_id, master_epoch=machine.leads)
    body = SyncStateSet(sorted(wanted), machine.set_epoch)
    decision = decisions.alter_in_sync(state.set, living(state), header, body, machine.store.life)
    if decision.code == codes.SUCCESS and decision.after is not None:
        taken = machine._replace(members=decision.after.in_sync, set_epoch=decision.after.in_sync_epoch)
        after = state.with_set(decision.after).with_machine(broker_id, taken)
        for joined in set(taken.members) - set(machine.members):
            after = after.with_machine(joined, after.of(joined)._replace(damaged=False))
        yield f"{broker_id} has {body.sync_state_set} in sync", after


def _looks(
    state: State, broker_id: int, machine: Machine, rules: Rules, counts: dict[str, int]
) -> Iterator[tuple[str, State]]:
    """A replica asks its controller who leads, and takes its part, or asks for an election."""
    one = state.set
    if machine.store.life != one.replicas[broker_id].life:
        return
    if one.master is None:
        if one.master_epoch >= MOST_EPOCHS:
            return
        decision = decisions.elect_master(
            one, living(state), broker_id, _terms(state, rules), machine.store.life
        )
        lost = state.with_machine(broker_id, machine._replace(leads=0, members=(), follows=0))
        yield f"{broker_id} asks for an election", _elected(lost, decision, rules, counts)
    elif one.master == broker_id:
        if machine.leads != one.master_epoch:
            led = machine._replace(
                leads=one.master_epoch, members=one.in_sync, set_epoch=one.in_sync_epoch, follows=0,
                store=machine.store._replace(epoch=one.master_epoch),
            )  # fmt: skip
            yield f"{broker_id} leads", _in_office(state, broker_id, machine).with_machine(broker_id, led)
    else:
        master = state.of(one.master)
        if master.leads == one.master_epoch and machine.follows != one.master_epoch:
            common = machine.store.log[: common_end(machine.store.log, master.store.log)]
            followed = machine._replace(
                leads=0, members=(), follows=one.master_epoch,
                store=machine.store._replace(log=common, epoch=one.master_epoch),
            )  # fmt: skip
            yield f"{broker_id} follows", state.with_machine(broker_id, followed)


def _in_office(state: State, broker_id: int, machine: Machine) -> State:
    """The controller knows that a replica leads, before it confirms anything."""
    header = RegisterBrokerToControllerRequestHeader(CLUSTER, NAME, broker_id, address(broker_id), 0)
    end = len(machine.store.log)
    claims = Claims(machine.store.life, leads=state.set.master_epoch, confirmed=end, synced=True)
    decision = decisions.register(state.set, living(state), header, claims)
    assert decision.code == codes.SUCCESS, decision.remark
    return state.with_set(decision.after)


def common_end(log: Log, other: Log) -> int:
    """Up to where two logs are the same: a message is known by its epoch and its place."""
    end = 0
    while end < min(len(log), len(other)) and log[end] == other[end]:
        end += 1
    return end


def _killed(state: State, broker_id: int, machine: Machine) -> State:
    gone = machine._replace(up=False, leads=0, members=(), follows=0)
    after = state.with_machine(broker_id, gone)
    for other in IDS:  # its slaves look for another master
        slave = after.of(other)
        if machine.leads and slave.follows == machine.leads:
            after = after.with_machine(other, slave._replace(follows=0))
    return after


def _returns(
    state: State, broker_id: int, machine: Machine, counts: dict[str, int]
) -> Iterator[tuple[str, State]]:
    """A replica starts again: with its store, with less, or with an older copy of it."""
    if machine.starts >= MOST_STARTS:
        return
    stores = {"": machine.store}
    others = any(each.damaged for number, each in enumerate(state.machines, 1) if number != broker_id)
    if not others and machine.store.log:
        stores[" with less"] = machine.store._replace(log=machine.store.log[:-1])
    if not others and machine.copy is not None and machine.copy != machine.store:
        stores[" as an older copy"] = machine.copy
    for how, store in stores.items():
        new = life(broker_id, machine.starts + 1)
        header = RegisterBrokerToControllerRequestHeader(
            cluster_name=CLUSTER, broker_name=NAME, broker_id=broker_id, broker_address=address(broker_id)
        )
        decision = decisions.register(state.set, living(state), header, Claims(new, store.life))
        if decision.code != codes.SUCCESS:
            if not how:
                raise Broken(f"{broker_id} returns and is refused: {decision.remark}")
            counts["a copy is refused"] = counts.get("a copy is refused", 0) + 1
            continue
        if store.life != state.set.replicas[broker_id].life:
            raise Broken(f"{broker_id} registers with an older token")
        back = machine._replace(
            store=store._replace(life=new), up=True, starts=machine.starts + 1, damaged=machine.damaged or bool(how)
        )
        yield f"{broker_id} returns{how}", state.with_set(decision.after).with_machine(broker_id, back)


def _no_other_registers(state: State, broker_id: int) -> None:
    """A clone of a store, at another address, while the replica lives."""
    if broker_id not in living(state):
        return
    header = RegisterBrokerToControllerRequestHeader(
        cluster_name=CLUSTER, broker_name=NAME, broker_id=broker_id, broker_address="10.9.9.9:1"
    )
    claims = Claims("clone", state.of(broker_id).store.life)
    if decisions.register(state.set, living(state), header, claims).code == codes.SUCCESS:
        raise Broken(f"a clone of {broker_id} registers while {broker_id} lives")


def _elected(state: State, decision: decisions.SetDecision, rules: Rules, counts: dict[str, int]) -> State:
    after = decision.after
    if decision.waits is not None:
        counts["an election waits"] = counts.get("an election waits", 0) + 1
    if decision.new_master and after is not None:
        counts["a master is elected"] = counts.get("a master is elected", 0) + 1
        log = state.of(after.master or 0).store.log
        # What only the damaged replica held is lost with it, unless the controller knows what was confirmed.
        held = not rules.waits_forever or not all(state.of(member).damaged for member in state.set.in_sync)
        if held and log[: len(state.confirmed)] != state.confirmed:
            raise Broken(f"{after.master} is elected with the log {log}, and {state.confirmed} is confirmed")
        after = replace(after, office=Office(after.master or 0, after.master_epoch))
    return state.with_set(after)
