"""What can happen next in a state. Decisions are made by the functions that brokers and controllers run."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from bolide.controller import decisions
from bolide.controller.decisions import SetDecision
from bolide.controller.election import Terms
from bolide.node.replication.sync_state_set import NOT_TAKEN
from bolide.remoting import codes
from bolide.remoting.bodies.controller import SyncStateSet
from bolide.remoting.headers.controller import (
    AlterSyncStateSetRequestHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from bolide.remoting.replica_claims import NOT_KNOWN, Claims
from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.standing import Standing, Step, Told
from bolide.replication.sync_set import SyncSet
from proof.exploration.replicas.bounds import Bounds
from proof.exploration.replicas.machines import (
    NAME,
    NEEDED,
    PATIENCE,
    Disk,
    Machine,
    Question,
    State,
    changed,
    ended,
)
from proof.exploration.replicas.meeting import meet

Move = tuple[str, State]
"""What happened, as a trace prints it, and the state after it."""


def moves(state: State, bounds: Bounds) -> Iterator[Move]:
    """Yield every move of a state within the bounds."""
    for at, machine in enumerate(state.machines):
        if machine.runs:
            yield from _running(state, at, machine, bounds)
        else:
            yield from _starts(state, at, machine, bounds)
    if state.faults < bounds.faults:
        fault = replace(state, faults=state.faults + 1)
        for broker_id, *_ in state.known:
            if any(each.own_id == broker_id and each.runs for each in state.machines):
                yield f"the controller hears no more of {broker_id}", fault.unheard(broker_id)
        if state.known:
            yield "another controller leads, and has heard nobody", replace(fault, known=(), reported=None)
    if state.on_its_way is not None:
        yield _arrived(state, state.on_its_way)
    if state.one.master is not None and state.known and state.one.master not in state.living():
        yield "the controller looks for a master that is gone", _elected(state, None)


def _running(state: State, at: int, machine: Machine, bounds: Bounds) -> Iterator[Move]:
    name = _name(machine)
    if machine.serves and state.sends < bounds.sends:
        record = state.sends + 1
        disk = machine.disk
        longer = replace(machine, disk=replace(disk, log=(*disk.log, record)))
        yield f"{name} stores record {record}", settled(replace(state, sends=record).with_machine(at, longer), at)
    if machine.standing is None:
        yield f"{name} registers", _registered(state, at)
    else:
        yield f"{name} asks who is the master", _looked(state, at)
        if state.heard(machine) != state:
            yield f"{name} sends a heartbeat", state.heard(machine)
    if machine.leads:
        yield from _asks_for_set(state, at, machine, bounds)
        yield from _notices(state, at, machine)
        for other, slave in enumerate(state.machines):
            if other != at and follows(slave, machine):
                for records in (0, 1):
                    met = meet(state, other, at, records)
                    if met is not None:
                        yield f"{_name(slave)} copies {records} of {name}", settled(met, at)
    if state.faults < bounds.faults:
        stopped = replace(state, faults=state.faults + 1).with_machine(at, machine.stopped())
        yield f"{name} is killed", _disconnected(stopped.unheard(machine.own_id), machine)
        if stopped.key() != _disconnected(stopped, machine).key():
            yield f"{name} is killed, and its master does not notice", stopped.unheard(machine.own_id)
    if state.losses < bounds.losses and machine.older is None and machine.disk.log:
        yield f"an operator copies the disk of {name}", state.with_machine(at, replace(machine, older=machine.disk))


def _starts(state: State, at: int, machine: Machine, bounds: Bounds) -> Iterator[Move]:
    name = _name(machine)
    started = replace(machine, runs=True)
    yield f"{name} starts", state.with_machine(at, started)
    if state.losses >= bounds.losses:
        return
    less = replace(state, losses=state.losses + 1)
    if machine.older is not None and machine.older != machine.disk:
        older = replace(started, disk=machine.older)
        yield f"{name} starts with an older copy of its disk", less.with_machine(at, older)
    for end in range(machine.end):
        shorter = replace(started, disk=machine.disk.ends_at(end))
        yield f"{name} starts with its log cut at {end}", less.with_machine(at, shorter)


def _name(machine: Machine) -> str:
    return machine.address


# ---- the controller


def _elected(state: State, asking: int | None, life: str | None = None) -> State:
    office = state.office()
    confirmed = NOT_KNOWN if office is None else office.confirmed
    terms = Terms(confirmed=confirmed, synced=office is not None and office.synced)
    return _decided(state, decisions.elect_master(state.one, state.living(), asking, terms, life))


def _decided(state: State, decision: SetDecision) -> State:
    after = decision.after
    return state if after is None else replace(state, one=decisions.noted(after, state.office()))


def _registered(state: State, at: int) -> State:
    """Register, and stand for election if no master lives (`Membership._register`)."""
    machine = state.machines[at]
    claims = Claims(f"{at}.{state.faults}.{state.losses}", machine.disk.life)
    header = RegisterBrokerToControllerRequestHeader("c", NAME, machine.own_id, machine.address, 0)
    decision = decisions.register(state.one, state.living(), header, claims)
    if decision.code != codes.SUCCESS:
        return state
    standing = Standing(machine.own_id)
    standing.life = claims.life
    registered = replace(machine, standing=standing, disk=replace(machine.disk, life=claims.life))
    state = _decided(state, decision).with_machine(at, registered).heard(registered)
    answer = decision.header
    assert isinstance(answer, RegisterBrokerToControllerResponseHeader)
    return state if answer.master_broker_id is not None else _elected(state, machine.own_id, claims.life)


def _took_office(state: State, machine: Machine, epoch: int) -> State | None:
    """Return the state in which the controller knows that a replica begins to lead; None if it refuses."""
    assert machine.standing is not None
    claims = Claims(machine.standing.life, leads=epoch, confirmed=machine.end, synced=True)
    header = RegisterBrokerToControllerRequestHeader("c", NAME, machine.own_id, machine.address, 0)
    decision = decisions.register(state.one, state.living(), header, claims)
    return _decided(state, decision) if decision.code == codes.SUCCESS else None


def told(state: State) -> Told:
    """Return what the controller answers to the question for the master."""
    one = state.one
    address = one.address_of(one.master) or ""
    return Told(one.master, address, one.master_epoch, frozenset(one.in_sync), one.in_sync_epoch)


# ---- a replica and its part


def _looked(state: State, at: int) -> State:
    machine = state.machines[at]
    standing = _copy(machine.standing)
    step = standing.heard(told(state))
    if step is Step.ELECT:
        if told(state).epoch > standing.epoch and standing.leads:
            standing.lost()
            machine = replace(machine, sync_set=None, opens_at=None, standing=standing)
            state = state.with_machine(at, machine)
        state = _elected(state, machine.own_id, standing.life)
        step = standing.heard(told(state))
    if step is Step.COUNT:
        return _counted(state, at)
    if step not in (Step.LEAD, Step.FOLLOW):
        return state
    if step is Step.LEAD:
        taken = _took_office(state, machine, told(state).epoch)
        if taken is None:
            return state
        state = taken
    standing.lost()
    after = _led(machine, told(state)) if step is Step.LEAD else replace(machine, sync_set=None, opens_at=None)
    if machine.standing is not None and machine.standing._taken is not None:
        state = _disconnected(state, machine)  # a master may still have the connection of an earlier start
    if after is None:
        return state.with_machine(at, replace(machine, sync_set=None, opens_at=None, standing=standing))
    standing.took(told(state))
    state = state.with_machine(at, replace(after, standing=standing))
    state = state.heard(state.machines[at])
    return settled(state, at) if after.leads else state


def _copy(standing: Standing | None) -> Standing:
    assert standing is not None
    found = Standing(standing.own_id)
    found.life, found.epoch, found._taken = standing.life, standing.epoch, standing._taken
    return found


def _led(machine: Machine, order: Told) -> Machine | None:
    """Return the master of an epoch (`EpochLog.lead`), or None if the log has a newer epoch."""
    epochs = Epochs(machine.disk.epochs)
    last = epochs.last
    try:
        if last is None or last.number != order.epoch:
            epochs = epochs.begun(order.epoch, machine.end if last is not None else 0)
        elif not machine.certain and epochs.below_number(order.epoch).last is not None:
            epochs = epochs.below_number(order.epoch).begun(order.epoch, machine.end)
    except NotReplicated:
        return None
    start = epochs.entries[-1].start
    sync_set = SyncSet(machine.own_id, order.members, order.set_epoch, start, PATIENCE)
    disk = replace(machine.disk, epochs=epochs.entries)
    return replace(machine, disk=disk, sync_set=sync_set, opens_at=machine.end, certain=True)


def _counted(state: State, at: int) -> State:
    machine, order = state.machines[at], told(state)
    if machine.sync_set is None:
        return state
    sync_set = changed(machine.sync_set)
    if sync_set.question is None or order.set_epoch > sync_set.set_epoch:
        newer = order.set_epoch > sync_set.set_epoch
        sync_set.answered(order.members, order.set_epoch, 0)
        for each in sync_set.outsiders if newer else ():
            ended(sync_set, each)
    return settled(state.with_machine(at, replace(machine, sync_set=sync_set)), at)


def _asks_for_set(state: State, at: int, machine: Machine, bounds: Bounds) -> Iterator[Move]:
    assert machine.sync_set is not None and machine.standing is not None
    sync_set = changed(machine.sync_set)
    wanted = sync_set.question or sync_set.wanted(0)
    if wanted is None:
        return
    sync_set.asked(wanted)
    asking = state.with_machine(at, replace(machine, sync_set=sync_set))
    standing, asked = machine.standing, tuple(sorted(wanted))
    question = Question(machine.own_id, standing.epoch, asked, sync_set.set_epoch, standing.life)
    decision = _asked(state, question)
    name = _name(machine)
    if decision.after is not None:
        yield f"{name} asks for the set {list(asked)} and hears nothing", _decided(asking, decision)
    if state.on_its_way is None and state.late < bounds.late:
        late = replace(asking, late=state.late + 1, on_its_way=question)
        yield f"{name} asks for the set {list(asked)}, which takes long to arrive", late
    sync_set = changed(sync_set)
    if decision.after is not None:
        before = sync_set.members
        sync_set.answered(frozenset(decision.after.in_sync), decision.after.in_sync_epoch, 0)
        for each in before - sync_set.members:
            ended(sync_set, each)
    elif decision.code in NOT_TAKEN:
        if state.on_its_way is None:
            sync_set.refused(0)
    else:
        return
    answered = _decided(state, decision).with_machine(at, replace(machine, sync_set=sync_set))
    yield f"{name} asks for the set {list(asked)}: {codes.response_name(decision.code)}", settled(answered, at)


def _asked(state: State, question: Question) -> SetDecision:
    header = AlterSyncStateSetRequestHeader(NAME, question.master, question.epoch, 0)
    body = SyncStateSet(list(question.wanted), question.set_epoch)
    return decisions.alter_in_sync(state.one, state.living(), header, body, question.life)


def _arrived(state: State, question: Question) -> Move:
    """A late question arrives. Its master has stopped waiting for the response."""
    decision = _asked(state, question)
    text = f"the question of {question.master} arrives: {codes.response_name(decision.code)}"
    return text, _decided(replace(state, on_its_way=None), decision)


def _notices(state: State, at: int, machine: Machine) -> Iterator[Move]:
    """A master notices that a connection has ended."""
    assert machine.sync_set is not None
    for slave in state.machines:
        if slave.own_id != machine.own_id and not follows(slave, machine):
            sync_set = changed(machine.sync_set)
            if ended(sync_set, slave.own_id):
                noticed = state.with_machine(at, replace(machine, sync_set=sync_set))
                yield f"{_name(machine)} notices that {_name(slave)} is gone", noticed


def follows(slave: Machine, master: Machine) -> bool:
    """Return whether a running replica is a slave of this master."""
    standing = slave.standing
    if not slave.runs or slave.leads or standing is None or standing._taken is None:
        return False
    return standing._taken.address == master.address and slave.own_id != master.own_id


def _disconnected(state: State, machine: Machine) -> State:
    """Return the state in which no master has a connection of this machine."""
    for at, master in enumerate(state.machines):
        if master.sync_set is not None and master.own_id != machine.own_id:
            sync_set = changed(master.sync_set)
            if ended(sync_set, machine.own_id):
                state = state.with_machine(at, replace(master, sync_set=sync_set))
    return state


def settled(state: State, at: int) -> State:
    """Return the state in which a master has confirmed what its set holds, and answered its clients."""
    machine = state.machines[at]
    if machine.sync_set is None:
        return state
    sync_set = changed(machine.sync_set)
    if machine.opens_at is not None and sync_set.held_by_all(machine.opens_at):
        machine = replace(machine, opens_at=None)
    confirmed = sync_set.confirmed(machine.end)
    known = dict(state.told)
    if machine.serves:
        held = max((end for end in range(confirmed + 1) if sync_set.holders(end) >= NEEDED), default=0)
        for offset in range(held):
            known.setdefault(offset, machine.disk.log[offset])
    disk: Disk = replace(machine.disk, confirmed=max(machine.disk.confirmed, confirmed))
    state = state.with_machine(at, replace(machine, sync_set=sync_set, disk=disk))
    return replace(state, told=tuple(sorted(known.items())))
