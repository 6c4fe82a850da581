"""A slave connects to its master: both ends are the ones that brokers run, and frames are their bytes."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.pacing import Pace
from bolide.replication.switch_frames import Hello, encode_held
from bolide.replication.switch_master import SwitchMaster
from bolide.replication.switch_slave import OwnLog, SwitchSlave
from bolide.replication.sync_set import SyncSet
from proof.exploration.replicas.machines import Disk, Machine, State, changed, connection_of

FILE_SIZE: Final = 64
RECORD: Final = 1
PACE: Final = Pace(batch=RECORD)


class _Wire:
    """The master's end of a connection."""

    def __init__(self, master: Machine, sync_set: SyncSet) -> None:
        self._log = bytes(master.disk.log)
        self._epochs = Epochs(master.disk.epochs)
        self._sync_set = sync_set
        self._end = SwitchMaster(FILE_SIZE, PACE, 0)

    def hears(self, data: bytes) -> None:
        self._end.received(data, self._epochs, 0, 0)

    def answer(self) -> bytes:
        return self._end.answer(self._epochs, len(self._log), 0)

    def record(self) -> bytes:
        """Return the next record as it is sent; nothing at the end of the log."""
        if self._end.wanted(self._epochs, len(self._log), 0) != RECORD:
            return b""
        data = self._log[self._end.next_offset : self._end.next_offset + RECORD]
        return self._held() + self._end.transfer(self._epochs, RECORD, self._confirmed(), 0) + data

    def news(self) -> bytes:
        return self._held() + self._end.news(self._epochs, self._confirmed(), 0)

    def _confirmed(self) -> int:
        return self._sync_set.confirmed(len(self._log))

    def _held(self) -> bytes:
        return encode_held(self._confirmed())


def meet(state: State, slave_at: int, master_at: int, records: int) -> State | None:
    """Return the state after a handshake and so many records; None if nothing changes, or one end refuses."""
    slave, master = state.machines[slave_at], state.machines[master_at]
    assert master.sync_set is not None
    assert slave.standing is not None
    sync_set, disk = changed(master.sync_set), slave.disk
    wire = _Wire(master, sync_set)
    own = OwnLog(slave.end, Epochs(disk.epochs), FILE_SIZE, disk.confirmed)
    try:
        session = SwitchSlave(Hello(slave.own_id, wants_held=True), own, slave.standing.epoch, PACE, 0)
        wire.hears(session.hello(0))
        sync_set.connected(connection_of(slave), slave.own_id, learner=False, now=0)
        arrived = session.received(wire.answer(), 0)
        if arrived.compare is not None:
            begin, end = arrived.compare
            wire.hears(session.comparing(bytes(disk.log[begin:end]), 0))
            while arrived.cut < 0:
                arrived = session.received(wire.record(), 0)
        disk = disk.ends_at(arrived.cut)
        wire.hears(session.cut_done(arrived.cut, 0))
        disk = _appended(disk, session, b"")
        for _ in range(records):
            record = wire.record()
            if not record:
                return None
            disk = _appended(disk, session, record)
            wire.hears(session.say(len(disk.log), 0))
        sync_set.reported(connection_of(slave), slave.own_id, len(disk.log), master.end, 0)
        disk = _appended(disk, session, wire.news())
    except NotReplicated:
        return None
    met = state.with_machine(slave_at, replace(slave, disk=disk))
    met = met.with_machine(master_at, replace(master, sync_set=sync_set))
    return None if met.key() == state.key() else met


def _appended(disk: Disk, session: SwitchSlave, data: bytes) -> Disk:
    arrived = session.received(data, 0)
    for epochs, offset, part in arrived.runs:
        if epochs is not None:
            disk = replace(disk, epochs=epochs.entries)
        if part:
            assert offset == len(disk.log)
            disk = replace(disk, log=(*disk.log, *part))
    return replace(disk, confirmed=max(disk.confirmed, min(session.held, len(disk.log))))
