"""Selects log files to delete, and checks the disk (RocketMQ's CleanCommitLogService).

Expired files are deleted, oldest first, at the configured hour or if the disk is filling up. Above a second ratio, even
files that have not expired are deleted. Above a third ratio, the store rejects messages until usage is back at the
second.
"""

from __future__ import annotations

from msgspec import Struct

from bolide.store.background.running_flags import DISK_FULL, RunningFlags
from bolide.store.disk.files import FileFailed, Files
from bolide.store.disk.segments import SegmentList
from bolide.store.options import StoreOptions

FIRST_ROUND_MS = 60_000
"""Time from the start to the first round."""
LOOK_MS = 1000
"""Interval at which a full disk is checked."""
LONGEST_LOOK_MS = 8000
"""Maximum pause after a write to a full disk although the ratios show free space: a quota, or blocks reserved for
root."""
CALM_MS = 60_000
"""Failed writes further apart than this do not lengthen the pause."""
MANUAL_ROUNDS = 20
_HOUR_MS = 3_600_000


class DiskState(Struct, frozen=True):
    """Disk usage (0.0 to 1.0), and its consequences."""

    use: float
    expired_may_go: bool
    """Above diskMaxUsedSpaceRatio: delete expired files at any hour."""
    all_may_go: bool
    """Above diskSpaceCleanForciblyRatio: delete the oldest files even if not expired."""


class Retention:
    """The cleaner of one store. Times are ms since the epoch; the age of a file and the hour use the wall clock."""

    def __init__(
        self, files: Files, root: str, options: StoreOptions, flags: RunningFlags, segments: SegmentList
    ) -> None:
        self._files = files
        self._root = root
        self._options = options
        self._flags = flags
        self._segments = segments
        self._hours = options.delete_hours()
        self._manual_rounds = 0
        self._over = False
        """Whether disk usage has exceeded the warning ratio and not returned to the forcible one."""
        self._refused_at = 0
        """Time of the last write to a full disk."""
        self._pause = 0
        self.held = False
        """Whether the last round deleted fewer files than allowed by their age and the disk, because of `keep_from`."""
        self.next_round = 0
        self._next_look = 0

    def configure(self, options: StoreOptions) -> None:
        """Apply changed rules, starting with the next round."""
        self._options = options
        self._hours = options.delete_hours()

    def start(self, now: int) -> None:
        """Start the intervals."""
        self.next_round = now + FIRST_ROUND_MS
        self._next_look = now + LOOK_MS
        self.look_at_disk()

    def due(self) -> int:
        """Return when to call `round` or `look_again` next."""
        return min(self.next_round, self._next_look) if self._flags.bits & DISK_FULL else self.next_round

    def look_again(self, now: int) -> None:
        """Check a full disk for free space, if the check is due."""
        if self._flags.bits & DISK_FULL and now >= self._next_look:
            self._next_look = now + LOOK_MS
            self.look_at_disk()

    def write_refused(self, now: int) -> None:
        """Reject messages after a write has hit a full disk. The next check allows one write; the interval doubles on
        repeated failures."""
        self._flags.set(DISK_FULL)
        soon = self._pause > 0 and now - self._refused_at < CALM_MS
        self._pause = min(2 * self._pause, LONGEST_LOOK_MS) if soon else LOOK_MS
        self._refused_at = now
        self._next_look = now + self._pause

    def delete_now(self, now: int) -> None:
        """Serve `mqadmin deleteExpiredCommitLog`: delete expired files in the next rounds at any hour."""
        self._manual_rounds = MANUAL_ROUNDS
        self.next_round = now

    def round(self, now: int, wall: int, keep_from: int) -> list[str]:
        """Run one round: set or clear the flag for a full disk, and remove the files to delete from the list.

        Return their paths in the order of deletion. Omits files at or after the offset `keep_from`.
        """
        self.next_round = now + self._options.clean_resource_interval
        self._next_look = now + LOOK_MS
        self.held = False
        disk = self.look_at_disk()
        manual = self._manual_rounds > 0
        self._manual_rounds = max(0, self._manual_rounds - 1)
        forced = disk.all_may_go and self._options.clean_file_forcibly_enable
        if not (manual or forced or disk.expired_may_go or self._is_hour(wall)):
            return []
        batch, starts = self._options.delete_file_batch_max, self._segments.segment_starts()
        limit = min(batch if forced else self._expired(wall), batch, len(starts) - 1)
        may_go = len([start for start in starts if start < keep_from])
        self.held = may_go < limit
        return self._take(min(limit, may_go))

    def look_at_disk(self) -> DiskState:
        """Measure the disk. Sets DISK_FULL above the warning ratio, and clears it at or below the forcible one.

        A flag set by a write is cleared unless the ratios require it: the next write is the better test.
        """
        try:
            use = self._files.disk_use(self._root)
        except FileFailed:
            use = 0.0  # an unreadable disk is not treated as full: a write will show whether it is
        options = self._options
        if use > options.warning_ratio:
            self._over = True
        elif use <= options.clean_forcibly_ratio:
            self._over = False
        if self._over:
            self._flags.set(DISK_FULL)
        else:
            self._flags.clear(DISK_FULL)
        return DiskState(use, use > options.disk_max_used_space_ratio / 100, use > options.clean_forcibly_ratio)

    def _is_hour(self, wall: int) -> bool:
        return int(self._files.local_time(wall)[8:10]) in self._hours

    def _expired(self, wall: int) -> int:
        """Return how many of the oldest files have expired, never counting the last file."""
        keep = self._options.file_reserved_time * _HOUR_MS
        count = 0
        for start in self._segments.segment_starts()[:-1]:
            changed = self._files.modified_ms(self._segments.path_at(start))
            if changed < 0 or wall - changed < keep:
                break
            count += 1
        return count

    def _take(self, limit: int) -> list[str]:
        if limit <= 0:
            return []
        starts = self._segments.segment_starts()
        if len(starts) < 2:
            return []
        return self._segments.detach_before(starts[min(limit, len(starts) - 1)], limit)
