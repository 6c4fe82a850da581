"""Sums the times in which a replica kept its master waiting, so that one that stops again and again leaves the set.

`haMaxTimeSlaveNotCatchup` judges one absence alone. A replica that stops for 12 of every 15 seconds never exceeds it,
and sends fail for most of the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

NOTHING: Final = -1
FACTOR: Final = 20
"""The longest probation is so many times the first one."""


@dataclass
class _Attendance:
    awaited: int = 0
    """An end of the log that it is to report."""
    since: int = NOTHING
    """When the log ended there; `NOTHING` if it lacked nothing then."""
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Absences as a member: begin and end, oldest first."""
    well_from: int = 0
    """It has not been absent since then."""
    probation: int = 0
    """How long it must have been well to return; 0 before its first expulsion."""
    expelled: bool = False
    returned_at: int = 0


class Absences:
    """Of the replicas of one master. Times are ms.

    An absence is a time longer than `grace` in which a replica lacked a part of the log. A member whose absences within
    `window` exceed `allowed` is to be expelled. It may return after `probation` without an absence; the time doubles
    with each further expulsion.
    """

    def __init__(self, grace: int, window: int, allowed: int, probation: int) -> None:
        self._grace = grace
        self.window = window
        self._allowed = allowed
        self._first = probation
        self._replicas: dict[int, _Attendance] = {}

    def connected(self, replica_id: int, now: int) -> None:
        """A connection begins; nothing is awaited from it yet."""
        replica = self._replicas.setdefault(replica_id, _Attendance())
        replica.awaited, replica.since, replica.well_from = 0, NOTHING, now

    def gone(self, replica_id: int) -> None:
        """The connection ended. Only what may count later stays."""
        replica = self._replicas.get(replica_id)
        if replica is not None and not replica.spans and not replica.probation:
            del self._replicas[replica_id]

    def looked(self, replica_id: int, acked: int, end: int, now: int, *, member: bool) -> None:
        """The log ends at `end` now, and the replica holds it up to `acked`."""
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
        """How long a member was absent within the window."""
        replica = self._replicas.get(replica_id)
        if replica is None or (not replica.spans and replica.since < 0):
            return 0
        begin = now - self.window
        total = sum(end - max(start, begin) for start, end in replica.spans if end > begin)
        return total + (min(now - replica.since, self.window) if self._absent(replica, now) else 0)

    def exceeded(self, replica_id: int, now: int) -> bool:
        """Whether a member is to be expelled."""
        return self.absent_ms(replica_id, now) > self._allowed

    def left(self, replica_id: int, now: int) -> bool:
        """It is a member no more. Return whether it is expelled: it may not return at once."""
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
        """It is a member again."""
        replica = self._replicas.get(replica_id)
        if replica is not None and replica.expelled:
            replica.expelled, replica.returned_at = False, now

    def may_return(self, replica_id: int, now: int) -> bool:
        """Whether a replica may become a member."""
        replica = self._replicas.get(replica_id)
        if replica is None or not replica.expelled:
            return True
        return not self._absent(replica, now) and now - replica.well_from >= replica.probation

    def probation(self, replica_id: int) -> int:
        """How long an expelled replica has to be well to return."""
        replica = self._replicas.get(replica_id)
        return replica.probation if replica is not None and replica.expelled else 0

    @property
    def expelled(self) -> int:
        """How many replicas are expelled and have not returned."""
        return sum(replica.expelled for replica in self._replicas.values())

    def _absent(self, replica: _Attendance, now: int) -> bool:
        return replica.since >= 0 and now - replica.since > self._grace

    def _record(self, replica: _Attendance, now: int) -> None:
        replica.spans = [span for span in replica.spans if span[1] > now - self.window]
        replica.spans.append((replica.since, now))
