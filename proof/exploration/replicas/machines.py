"""The values that a state consists of: three replicas, their controller, and what clients were told."""

from __future__ import annotations

import copy
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bolide.controller.liveness import Heartbeat, with_report
from bolide.controller.replica_set import Office, Replica, ReplicaSet, encode_set
from bolide.replication.epochs import Epoch, Epochs
from bolide.replication.standing import Standing, Told
from bolide.replication.sync_set import SyncSet

NAME: Final = "set"
NEEDED: Final = 2
"""inSyncReplicas and minInSyncReplicas."""
FIRST_LIFE: Final = "0"
PATIENCE: Final = 15_000
"""haMaxTimeSlaveNotCatchup in ms. The clock of a model stands still: a slave that falls behind loses its connection."""


class Disk(Struct, frozen=True):
    """What a machine keeps over a restart. A record is one byte long: the offset of a record is its place in `log`."""

    log: tuple[int, ...]
    epochs: tuple[Epoch, ...]
    confirmed: int
    """All members are known to hold the log up to here (`HeldBySet`)."""
    life: str
    """The token of the last start that registered with the controller."""

    def ends_at(self, end: int) -> Disk:
        """Return the disk with its log cut at `end`."""
        kept = Epochs(self.epochs).cut_at(end).entries
        return Disk(self.log[:end], kept, min(self.confirmed, end), self.life)


class Machine(Struct, frozen=True):
    """One replica. The objects in it are values too: a move changes a copy."""

    own_id: int
    address: str
    disk: Disk
    runs: bool = True
    standing: Standing | None = None
    """None until the machine has registered with the controller."""
    sync_set: SyncSet | None = None
    """Who confirms the log of this master; None for a slave."""
    opens_at: int | None = None
    """A master serves clients once all members hold the log up to here; None for one that serves, and for a slave."""
    certain: bool = True
    """The log has everything that a slave may have been sent."""
    older: Disk | None = None
    """A copy of the disk that an operator has made."""

    @property
    def leads(self) -> bool:
        """True for a machine that takes itself for the master."""
        return self.runs and self.sync_set is not None

    @property
    def serves(self) -> bool:
        """True for a master that takes sends."""
        return self.leads and self.opens_at is None

    @property
    def end(self) -> int:
        """Where the log ends."""
        return len(self.disk.log)

    def stopped(self) -> Machine:
        """Return the machine after a kill."""
        return replace(self, runs=False, standing=None, sync_set=None, opens_at=None)

    def key(self) -> tuple[object, ...]:
        """Return what tells this machine from one in another state."""
        standing = self.standing
        return (
            self.own_id,
            self.address,
            self.disk,
            self.runs,
            None if standing is None else (standing.own_id, standing.life, standing.epoch, standing._taken),
            None if self.sync_set is None else _counted(self.sync_set),
            self.opens_at,
            self.certain,
            self.older,
        )


def _counted(sync_set: SyncSet) -> tuple[object, ...]:
    replicas = tuple(sorted((each, found.acked, found.key) for each, found in sync_set._replicas.items()))
    return (
        sync_set.members,
        sync_set.set_epoch,
        sync_set.counted,
        sync_set.question,
        sync_set._confirmed,
        frozenset(sync_set._interrupted),
        replicas,
    )


def connection_of(machine: Machine) -> int:
    """Return the key of the connection of a slave to its master. It differs for each start of the slave."""
    assert machine.standing is not None
    return int(machine.standing.life.replace(".", ""))


def has_connection(sync_set: SyncSet, slave: Machine) -> bool:
    """Return whether the master has the connection of this start of the slave."""
    found = sync_set._replicas.get(slave.own_id)
    return found is not None and slave.standing is not None and found.key == connection_of(slave)


def ended(sync_set: SyncSet, replica_id: int) -> bool:
    """End the connection that a master has of a replica. Return False if it has none."""
    found = sync_set._replicas.get(replica_id)
    return found is not None and sync_set.gone(found.key, replica_id)


class Question(Struct, frozen=True):
    """A master's request for another set (1001), in flight to the controller."""

    master: int
    epoch: int
    wanted: tuple[int, ...]
    set_epoch: int
    life: str


class State(Struct, frozen=True):
    """All of it."""

    machines: tuple[Machine, ...]
    one: ReplicaSet
    """What the controllers have kept of the set."""
    known: tuple[tuple[int, str, int, int], ...]
    """The replicas that the leading controller takes for alive: id, token, epoch, end of the log."""
    reported: Office | None = None
    """The last report of a master that the leading controller has heard."""
    told: tuple[tuple[int, int], ...] = ()
    """Offset and record of each send that was answered, in order."""
    sends: int = 0
    faults: int = 0
    """How often a machine stopped or a controller was replaced."""
    losses: int = 0
    """How often a machine returned with less, or was copied."""
    late: int = 0
    """Number of late questions for another set."""
    on_its_way: Question | None = None
    """The one that has not arrived."""

    def key(self) -> tuple[object, ...]:
        """Return what tells this state from another one."""
        machines = tuple(machine.key() for machine in self.machines)
        counts = self.sends, self.faults, self.losses, self.late
        return machines, encode_set(self.one), self.known, self.reported, self.told, counts, self.on_its_way

    def with_machine(self, at: int, machine: Machine) -> State:
        """Return the state with another machine in this place."""
        return replace(self, machines=(*self.machines[:at], machine, *self.machines[at + 1 :]))

    def living(self) -> dict[int, Heartbeat]:
        """Return the replicas that the controller takes for alive."""
        found = {}
        for broker_id, life, epoch, end in self.known:
            if self.one.replicas[broker_id].life == life:
                heartbeat = found[broker_id] = Heartbeat(broker_id, 0)
                heartbeat.life, heartbeat.epoch, heartbeat.max_offset = life, epoch, end
        return found

    def office(self) -> Office | None:
        """Return the last office of the set, as far as the controller knows (`Liveness.office`)."""
        office, told = self.one.office, self.reported
        if office is None or told is None or (told.master, told.epoch) != (office.master, office.epoch):
            return office
        return with_report(office, told)

    def heard(self, machine: Machine) -> State:
        """Return the state in which the controller has heard a heartbeat of this machine."""
        assert machine.standing is not None
        if self.one.replicas[machine.own_id].life != machine.standing.life:
            return self
        last = machine.disk.epochs[-1].number if machine.disk.epochs else -1
        left = [each for each in self.known if each[0] != machine.own_id]
        known = tuple(sorted([*left, (machine.own_id, machine.standing.life, last, machine.end)]))
        reported = self.reported
        if machine.standing.leads and (reported is None or machine.standing.epoch >= reported.epoch):
            confirmed = min(machine.end, machine.disk.confirmed)
            reported = Office(machine.own_id, machine.standing.epoch, confirmed, synced=True)
        return replace(self, known=known, reported=reported)

    def unheard(self, broker_id: int) -> State:
        """Return the state in which the controller takes this replica for dead."""
        return replace(self, known=tuple(each for each in self.known if each[0] != broker_id))


def first_state(count: int = 3) -> State:
    """Return a set whose replicas are all in sync, with an empty log and the first one as the master."""
    ids = range(1, count + 1)
    replicas = {each: Replica(f"a{each}", f"a{each};{each}", FIRST_LIFE, FIRST_LIFE) for each in ids}
    members = frozenset(ids)
    one = ReplicaSet(
        cluster="c", name=NAME, next_id=count + 1, replicas=replicas, master=1, master_epoch=1,
        in_sync=tuple(ids), in_sync_epoch=count, elected=True, office=Office(1, 1),
    )  # fmt: skip
    told = Told(1, "a1", 1, members, count)
    machines = []
    for each in ids:
        standing = Standing(each)
        standing.life = FIRST_LIFE
        standing.took(told)
        sync_set = None
        if each == 1:
            sync_set = SyncSet(1, frozenset({1}), 1, 0, PATIENCE)
            sync_set.answered(members, count, 0)
            for slave in ids[1:]:
                sync_set.connected(int(FIRST_LIFE), slave, learner=False, now=0)
                sync_set.reported(int(FIRST_LIFE), slave, 0, 0, 0)
        epochs = (Epoch(1, 0),) if each == 1 else ()
        machines.append(Machine(each, f"a{each}", Disk((), epochs, 0, FIRST_LIFE), True, standing, sync_set))
    state = State(tuple(machines), one, ())
    for machine in machines:
        state = state.heard(machine)
    return state


def returning_state() -> State:
    """Return a set whose third replica has the whole log and is about to rejoin the set."""
    state = first_state()
    members, left = frozenset((1, 2)), replace(state.one, in_sync=(1, 2), in_sync_epoch=state.one.in_sync_epoch + 1)
    machines = []
    for machine in state.machines:
        assert machine.standing is not None
        disk = replace(machine.disk, log=(1,), epochs=(Epoch(1, 0),), confirmed=1)
        sync_set = machine.sync_set
        if sync_set is not None:
            sync_set.answered(members, left.in_sync_epoch, 0)
            for slave in (2, 3):
                sync_set.reported(int(FIRST_LIFE), slave, 1, 1, 0)
            sync_set.confirmed(1)
        machines.append(replace(machine, disk=disk))
    state = replace(state, machines=tuple(machines), one=left, told=((0, 1),), sends=1, known=())
    for machine in state.machines:
        state = state.heard(machine)
    return state


def changed(sync_set: SyncSet) -> SyncSet:
    """Return a copy that a move may change."""
    return copy.deepcopy(sync_set)
