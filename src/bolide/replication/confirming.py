"""Which machines hold a master's log in the auto-switch mode, and who follows it.

A send that waits is answered once as many machines as it asks for hold the record, and every replica of the set: any of
them may be the next master, and the controller does not know which one holds most.
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
    """One slave of a master of one epoch: `SwitchMaster` with the epochs of the log, which do not change under it."""

    def __init__(self, switch: SwitchMaster, key: int, of: Confirming) -> None:
        self._switch = switch
        self._key = key
        self._of = of
        self._opened = False
        self._told = self._told_held = 0
        """Up to where the slave knows that the log is confirmed, and that the set holds it."""
        self._mark = 0
        """A slave that holds the log up to here has caught up with where it ended a moment ago."""

    @property
    def replica(self) -> int:
        """The slave's id; -1 before its handshake."""
        return -1 if self._switch.hello is None else self._switch.hello.slave_id

    @property
    def acked(self) -> int:
        """The end that the slave reported last; -1 before the first report."""
        return self._switch.acked

    @property
    def next_offset(self) -> int:
        """What is sent next; -1 before the first report."""
        return self._switch.next_offset

    @property
    def last_rate(self) -> int:
        """Bytes of the log sent in the last whole second in which any were."""
        return self._switch.last_rate

    def received(self, data: bytes, begin: int, end: int, now: int) -> bool:
        """Bytes from the slave; True when it reported. Raises `NotReplicated`."""
        reported = self._switch.received(data, self._of.epochs, begin, now)
        hello = self._switch.hello
        if hello is not None and not self._opened:
            self._opened = True
            self._mark = end
            self._of.opened(self._key, hello.slave_id, hello.learner, now)
        if reported:
            self._of.heard(self._key, self.replica, self.acked, self._mark, now)
            if self.acked >= self._mark:
                self._mark = end
        return reported

    def answer(self, end: int, now: int) -> bytes:
        """The answer to the handshake, once; nothing before it came."""
        sure = self._of.sure_end
        return self._switch.answer(self._of.epochs, end if sure is None else sure.told(self.replica, end), now)

    def wanted(self, end: int, now: int) -> int:
        """How many bytes from `next_offset` on are to be sent now; 0 for none."""
        if self._of.waits:
            self._of.sync_set.looked(self._key, self.replica, end, now)
        return self._switch.wanted(self._of.epochs, end, now)

    def transfer(self, size: int, now: int) -> bytes:
        """The header of a transfer of so many bytes, which follow it."""
        self._told = self._of.confirm()
        header = self._switch.transfer(self._of.epochs, size, self._told, now)
        if self._of.sure_end is not None:
            self._of.sure_end.sent(self.replica, self.next_offset)
        return self._held() + header

    def heartbeat(self, now: int) -> bytes:
        """The heartbeat if one is due, else nothing."""
        beat = self._switch.heartbeat(self._of.epochs, self._of.confirm(), now)
        return self._held() + beat if beat else b""

    def news(self, end: int, now: int) -> bytes:
        """Frames to send at once to a slave that was sent the whole log: a heartbeat if more of the log is confirmed, a
        `Held` frame if the set holds more of it."""
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
        """True when the slave was not heard for so long that it is gone."""
        return self._switch.silent(now)

    def due(self) -> int:
        """When `silent` or `heartbeat` is to be asked next."""
        return self._switch.due()

    def limited_until(self, now: int) -> int:
        """When more may be sent, because this second's bytes are sent; -1 when that holds nothing back."""
        return self._switch.limited_until(now)


class Confirming:
    """The slaves of a master in one epoch. `confirm` says up to where its log is confirmed now."""

    def __init__(
        self,
        sync_set: SyncSet,
        in_sync: InSync,
        own_id: int,
        everybody: bool,
        epochs: Epochs,
        confirm: Callable[[], int],
        sure_end: SureEnd | None = None,
    ) -> None:
        """`everybody` is allAckInSyncStateSet."""
        self.sure_end = sure_end
        self.sync_set = sync_set
        self.epochs = epochs
        self.confirm = confirm
        self._in_sync = in_sync
        self._own_id = own_id
        self._waits = everybody or in_sync.waits
        self._confirmed = 0
        self.held = 0
        """All members of the set hold the log below this offset; if sends wait, also as many machines as they need."""
        self._sessions: dict[int, EpochSession] = {}

    def session(self, file_size: int, pace: Pace, key: int, now: int) -> EpochSession:
        """A slave connected."""
        session = self._sessions[key] = EpochSession(SwitchMaster(file_size, pace, now), key, self)
        return session

    def opened(self, key: int, replica: int, learner: bool, now: int) -> None:
        """It opened with its handshake. Raises `NotReplicated` for the id of this master."""
        if replica == self._own_id:
            raise NotReplicated(f"it reports id {replica}, which is the id of the master itself")
        self.sync_set.connected(key, replica, learner, now)

    def heard(self, key: int, replica: int, acked: int, mark: int, now: int) -> None:
        """It holds the log up to `acked`. Only who is in the set counts as a machine that holds a record."""
        self.sync_set.reported(key, replica, acked, mark, now)
        if replica in self.sync_set.members:
            self._in_sync.reported(replica, acked)

    def recount(self) -> None:
        """The set is another one: what its members hold counts, also what they reported before."""
        for session in self._sessions.values():
            if session.replica in self.sync_set.members and session.acked >= 0:
                self._in_sync.reported(session.replica, session.acked)

    def connections_of(self, replicas: frozenset[int]) -> frozenset[int]:
        """Return the keys of the connections of these replicas."""
        return frozenset(key for key, session in self._sessions.items() if session.replica in replicas)

    # -- what `SlaveLinks` asks

    @property
    def waits(self) -> bool:
        """True when a send waits for slaves."""
        return self._waits

    @property
    def acknowledged(self) -> int:
        """Below this enough machines hold every record, every replica of the set among them."""
        return min(self._confirmed, self._in_sync.acknowledged) if self._in_sync.waits else self._confirmed

    def reported(self, key: int, end: int) -> None:
        """`heard` took it already, with what the session knows."""

    def gone(self, key: int) -> None:
        """That connection ended; an older one of a slave that connected again takes nothing with it."""
        session = self._sessions.pop(key, None)
        if session is not None and self.sync_set.gone(key, session.replica):
            self._in_sync.gone(session.replica)

    def holds_back(self, end: int, now: int) -> int:
        """Up to where the log, which ends at `end`, may be dispatched; NO_CAP when nothing is waited for."""
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
        """When `holds_back` moves by time alone; -1 for never."""
        times = [at for at in (self._in_sync.due(), self.sync_set.joining_until) if at >= 0]
        return min(times, default=-1)

    def late(self, end: int) -> bool:
        """True when a record that ends here is not held by enough machines."""
        return self._waits and (end > self._confirmed or self._in_sync.late(end))

    def short(self, end: int) -> bool:
        """What is too few for sends is asked of the set (`Switching.set_changed`)."""
        return False

    def keeps_up(self, ack: int, end: int) -> bool:
        """True when a slave that holds the log up to `ack` has most of it."""
        return self._in_sync.keeps_up(ack, end)

    def is_in_sync(self, key: int, ack: int, end: int) -> bool:
        """The members of the set are in sync."""
        session = self._sessions.get(key)
        return session is not None and session.replica in self.sync_set.members

    def count(self, end: int) -> int:
        """How many machines are in the set, this one among them."""
        return len(self.sync_set.members)
