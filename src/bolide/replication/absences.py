"""Sums the time that a master waits for each replica, to expel a replica that stops repeatedly.

`haMaxTimeSlaveNotCatchup` limits each absence separately. A replica that stops for 12 of every 15 seconds never exceeds
it, although sends fail most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NOTHING: Final = -1
FACTOR: Final = 20
"""Maximum probation, as a multiple of the first one."""


@dataclass
class _Attendance:
    awaited: int = 0
    """End of the log that the replica has to report next."""
    since: int = NOTHING
    """Time when the log ended at `awaited`, or `NOTHING` if the replica was caught up then."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of each absence as a member, oldest first."""
    well_from: int = 0
    """Start of the current time without an absence."""
    probation: int = 0
    """Time without an absence that the replica needs before it may return. 0 before its first expulsion."""
    expelled: bool = False
    returned_at: int = 0


class Absences:
    """The absences of one master's replicas. Times are ms.

    An absence is a time longer than `grace` in which a replica lacked a part of the log. A member whose absences within
    `window` exceed `allowed` must be expelled. It may return after `probation` without an absence. If it is expelled
    again soon after its return, that time doubles, up to `FACTOR` times `probation`.
    """

    def __init__(self, grace: int, window: int, allowed: int, probation: int) -> None:
        self._grace = grace
        self.window = window
        self._allowed = allowed
        self._first = probation
        self._replicas: dict[int, _Attendance] = {}

    def connected(self, replica_id: int, now: int) -> None:
        """Called when a replica connects."""
        replica = self._replicas.setdefault(replica_id, _Attendance())
        replica.awaited, replica.since, replica.well_from = 0, NOTHING, now

    def gone(self, replica_id: int) -> None:
        """Called when a replica disconnects. Drops its state unless it has absences or a probation."""
        replica = self._replicas.get(replica_id)
        if replica is not None and not replica.spans and not replica.probation:
            del self._replicas[replica_id]

    def looked(self, replica_id: int, acked: int, end: int, now: int, *, member: bool) -> None:
        """Called with the end of the log and the acknowledged offset of a replica."""
        replica = self._replicas.get(replica_id)
        if replica is None or acked < replica.awaited:
            return
        if self._absent(replica, now):
            if member:
                self._record(replica, now)
            replica.well_from = now
        replica.awaited = end
        replica.since = now if acked < end else NOTHING

    def absent_ms(self, replica_id: int, now: int) -> int:
        """Return how long a member was absent within the window, in ms."""
        replica = self._replicas.get(replica_id)
        if replica is None or (not replica.spans and replica.since < 0):
            return 0
        begin = now - self.window
        total = sum(end - max(start, begin) for start, end in replica.spans if end > begin)
        return total + (min(now - replica.since, self.window) if self._absent(replica, now) else 0)

    def exceeded(self, replica_id: int, now: int) -> bool:
        """Return whether a member must be expelled."""
        return self.absent_ms(replica_id, now) > self._allowed

    def left(self, replica_id: int, now: int) -> bool:
        """Called when a member leaves the set. Return whether it is expelled and needs a probation to return."""
        replica = self._replicas.get(replica_id)
        if replica is None:
            return False
        replica.expelled = self.exceeded(replica_id, now)
        if replica.expelled:
            again = replica.probation and now - replica.returned_at <= self._first * FACTOR
            replica.probation = min(replica.probation * 2, self._first * FACTOR) if again else self._first
            replica.spans.clear()
        elif self._absent(replica, now):
            self._record(replica, now)
        return replica.expelled

    def joined(self, replica_id: int, now: int) -> None:
        """Called when a replica is a member again."""
        replica = self._replicas.get(replica_id)
        if replica is not None and replica.expelled:
            replica.expelled, replica.returned_at = False, now

    def may_return(self, replica_id: int, now: int) -> bool:
        """Return whether a replica may become a member."""
        replica = self._replicas.get(replica_id)
        if replica is None or not replica.expelled:
            return True
        return not self._absent(replica, now) and now - replica.well_from >= replica.probation

    def probation(self, replica_id: int) -> int:
        """Return the time without an absence before an expelled replica may return, or 0 if it is not expelled."""
        replica = self._replicas.get(replica_id)
        return replica.probation if replica is not None and replica.expelled else 0

    @property
    def expelled(self) -> int:
        """Number of expelled replicas that have not returned."""
        return sum(replica.expelled for replica in self._replicas.values())

    def _absent(self, replica: _Attendance, now: int) -> bool:
        return replica.since >= 0 and now - replica.since > self._grace

    def _record(self, replica: _Attendance, now: int) -> None:
        replica.spans = [span for span in replica.spans if span[1] > now - self.window]
        replica.spans.append((replica.since, now))
