"""Acknowledgements of a master's replicas in controller mode.

A send that waits for slaves is acknowledged once the record is on the required number of brokers and on every member of
the in-sync set. Every member needs it, because any member may become the next master: the controller does not know
which one has the longest log.
"""

from __future__ import annotations

from collections.abc import Callable

from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.in_sync import NO_CAP, InSync
from bolide.replication.pacing import Pace
from bolide.replication.sure_end import SureEnd
from bolide.replication.switch_frames import encode_held
from bolide.replication.switch_master import SwitchMaster
from bolide.replication.sync_set import SyncSet


class EpochSession:
    """One slave of a master in one epoch. Passes the fixed epochs of the log to a `SwitchMaster`."""

    def __init__(self, switch: SwitchMaster, key: int, of: Confirming) -> None:
        self._switch = switch
        self._key = key
        self._of = of
        self._opened = False
        self._told = self._told_held = 0
        """Confirm offset and offset held by the set that the slave has received last."""
        self._mark = 0
        """Recent end of the log. A slave that reports this offset has caught up, and then gets a newer mark."""

    @property
    def replica(self) -> int:
        """Broker id of the slave, or -1 before its handshake."""
        return -1 if self._switch.hello is None else self._switch.hello.slave_id

    @property
    def acked(self) -> int:
        """Last end offset that the slave reported, or -1 before its first report."""
        return self._switch.acked

    @property
    def next_offset(self) -> int:
        """Offset of the next byte to send, or -1 before the first report."""
        return self._switch.next_offset

    @property
    def last_rate(self) -> int:
        """Bytes of the log sent in the last complete second with a transfer."""
        return self._switch.last_rate

    def received(self, data: bytes, begin: int, end: int, now: int) -> bool:
        """Process bytes from the slave. Return whether it reported. Raises `NotReplicated`."""
        reported = self._switch.received(data, self._of.epochs, begin, now)
        hello = self._switch.joined
        if hello is not None and not self._opened:
            self._opened = True
            self._mark = end
            self._of.opened(self._key, hello.slave_id, hello.learner, now)
        if reported and self.acked >= 0:
            self._of.heard(self._key, self.replica, self.acked, self._mark, now)
            if self.acked >= self._mark:
                self._mark = end
        return reported

    def answer(self, end: int, now: int) -> bytes:
        """Return the response to the handshake, or b"" if there is no handshake yet or it was answered."""
        sure = self._of.sure_end
        return self._switch.answer(self._of.epochs, end if sure is None else sure.told(self.replica, end), now)

    def wanted(self, end: int, now: int) -> int:
        """Return the number of bytes to send now, starting at `next_offset`."""
        self._of.sync_set.looked(self._key, self.replica, end, now, waits=self._of.waits)
        return self._switch.wanted(self._of.epochs, end, now)

    def transfer(self, size: int, now: int) -> bytes:
        """Return the header of a transfer. The caller appends `size` bytes."""
        self._told = self._of.confirm()
        header = self._switch.transfer(self._of.epochs, size, self._told, now)
        if self._of.sure_end is not None:
            self._of.sure_end.sent(self.replica, self.next_offset)
        return self._held() + header

    def heartbeat(self, now: int) -> bytes:
        """Return the heartbeat to send now, or b"" if none is due."""
        beat = self._switch.heartbeat(self._of.epochs, self._of.confirm(), now)
        return self._held() + beat if beat else b""

    def news(self, end: int, now: int) -> bytes:
        """Return frames to send immediately to a slave that was sent the whole log: a heartbeat if the confirm offset
        has advanced, and a `Held` frame if the set holds more."""
        if self.next_offset < end:
            return b""
        held, confirmed = self._held(), self._of.confirm()
        if confirmed <= self._told:
            return held
        self._told = confirmed
        return held + self._switch.news(self._of.epochs, confirmed, now)

    def _held(self) -> bytes:
        hello, held = self._switch.hello, self._of.held
        if hello is None or not hello.wants_held or held <= self._told_held:
            return b""
        self._told_held = held
        return encode_held(held)

    def silent(self, now: int) -> bool:
        """Return whether the slave has been idle for too long and is considered lost."""
        return self._switch.silent(now)

    def due(self) -> int:
        """Return when to call `silent` or `heartbeat` next."""
        return self._switch.due()

    def limited_until(self, now: int) -> int:
        """Return when the rate limit allows more bytes, or -1 if it allows some now."""
        return self._switch.limited_until(now)


class Confirming:
    """Slaves of a master in one epoch. `confirm` returns the current confirm offset."""

    def __init__(
        self,
        sync_set: SyncSet,
        in_sync: InSync,
        own_id: int,
        everybody: bool,
        epochs: Epochs,
        confirm: Callable[[], int],
        close: Callable[[frozenset[int]], None],
        sure_end: SureEnd | None = None,
    ) -> None:
        """`everybody`: whether allAckInSyncStateSet is set. `close` closes the connections with these keys."""
        self.sure_end = sure_end
        self.sync_set = sync_set
        self.epochs = epochs
        self.confirm = confirm
        self._close = close
        self._in_sync = in_sync
        self._own_id = own_id
        self._waits = everybody or in_sync.waits
        self._confirmed = 0
        self.held = 0
        """Offset below which all members of the set, and the brokers required by pending sends, hold the log."""
        self._sessions: dict[int, EpochSession] = {}

    def session(self, file_size: int, pace: Pace, key: int, now: int, set_name: str = "") -> EpochSession:
        """Create the session of a slave that has connected. `set_name`: name of this set."""
        session = self._sessions[key] = EpochSession(SwitchMaster(file_size, pace, now, set_name), key, self)
        return session

    def opened(self, key: int, replica: int, learner: bool, now: int) -> None:
        """Register a slave after its handshake, and close its older connections. Raises `NotReplicated` if it has the
        id of this master."""
        if replica == self._own_id:
            raise NotReplicated(f"it reports id {replica}, which is the id of the master itself")
        # Otherwise the reports of an older connection would be ignored, and its slave would never connect again.
        older = self.connections_of(frozenset({replica})) - {key}
        for each in older:
            self.gone(each)
        self._close(older)
        self.sync_set.connected(key, replica, learner, now)

    def heard(self, key: int, replica: int, acked: int, mark: int, now: int) -> None:
        """Record that a slave holds the log up to `acked`. Only members of the set are counted for acknowledgements."""
        self.sync_set.reported(key, replica, acked, mark, now)
        if replica in self.sync_set.members:
            self._in_sync.reported(replica, acked)

    def recount(self) -> None:
        """Apply a new in-sync set: count the last acknowledged offsets of its members."""
        for session in self._sessions.values():
            if session.replica in self.sync_set.members and session.acked >= 0:
                self._in_sync.reported(session.replica, session.acked)

    def connections_of(self, replicas: frozenset[int]) -> frozenset[int]:
        """Return the keys of the connections of these replicas."""
        return frozenset(key for key, session in self._sessions.items() if session.replica in replicas)

    # -- used by `SlaveLinks`

    @property
    def waits(self) -> bool:
        """Whether sends may wait for slaves."""
        return self._waits

    @property
    def acknowledged(self) -> int:
        """Offset below which the required number of brokers, including all members of the set, hold every record."""
        return min(self._confirmed, self._in_sync.acknowledged) if self._in_sync.waits else self._confirmed

    def claimed(self, key: int, end: int) -> None:
        """Does nothing: `heard` has already recorded the report."""

    def reported(self, key: int, end: int) -> None:
        """Does nothing: `heard` has already recorded the report."""

    def gone(self, key: int) -> None:
        """Called when a connection closes. A newer connection of the same slave is not affected."""
        session = self._sessions.pop(key, None)
        if session is not None and self.sync_set.gone(key, session.replica):
            self._in_sync.gone(session.replica)

    def holds_back(self, end: int, now: int) -> int:
        """Return the offset up to which the log, which ends at `end`, may be dispatched, or NO_CAP."""
        if self._waits:
            self.sync_set.count_ahead(now)
        self._confirmed = self.sync_set.confirmed(end)
        if not self._waits:
            self.held = self._confirmed
            return NO_CAP
        reached = self._in_sync.holds_back(end, now)
        self.held = self._confirmed if reached == NO_CAP else min(reached, self._confirmed)
        return self.held

    def due(self) -> int:
        """Return the time at which `holds_back` may change without another report, or -1 if it does not."""
        times = [at for at in (self._in_sync.due(), self.sync_set.joining_until) if at >= 0]
        return min(times, default=-1)

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is not on enough brokers."""
        return self._waits and (end > self._confirmed or self._in_sync.late(end))

    def short(self, end: int) -> bool:
        """Always False: `Switching.set_changed` rejects sends if the set has too few members."""
        return False

    def keeps_up(self, ack: int, end: int) -> bool:
        """Return whether a slave that holds the log up to `ack` keeps up (see `InSync.keeps_up`)."""
        return self._in_sync.keeps_up(ack, end)

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """Return whether the slave on this connection is a member of the set."""
        session = self._sessions.get(key)
        return session is not None and session.replica in self.sync_set.members

    def count(self, end: int) -> int:
        """Return the number of members of the set, including this broker."""
        return len(self.sync_set.members)
