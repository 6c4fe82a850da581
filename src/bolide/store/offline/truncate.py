"""`bolide store truncate`: truncates the log of a stopped replica, so that it can replicate from its master again.

A replica never truncates confirmed bytes automatically, so an operator must decide. The truncated bytes are saved in a
folder of the store, as with `store repair`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bolide.dispatch.row import pass_records
from bolide.store.disk.checkpoint_file import load_checkpoint
from bolide.store.disk.format_stamp import check_format
from bolide.store.errors import StoreDamaged
from bolide.store.offline.member import identity_words, set_aside
from bolide.store.offline.repair import Plan, Repair
from bolide.store.startup.survey import CHUNK, NO_LIMIT


@dataclass
class TruncationPlan(Plan):
    """Truncates the log at `log_end`, or moves the whole log aside if `no_log` is set."""

    replica: str = ""
    """Replica id, broker name and cluster in the file `brokerIdentity`, or "" if it is missing."""
    confirmed_bytes: int = 0
    """Number of truncated bytes that the set is known to have confirmed."""


class Truncation(Repair):
    """Truncates the log of a store folder that no broker uses. Raises the errors of `Repair`."""

    def plan_at(self, offset: int) -> TruncationPlan:
        """Plan a truncation at the record that contains this physical offset. Raises `StoreDamaged`."""
        files, root, log = self._files, self._root, self._log
        check_format(files, root)
        log.load()
        starts = log.segment_starts()
        if not starts:
            return TruncationPlan(root, 0)
        end = self._data_end(starts)
        if offset > end:
            raise StoreDamaged(f"the log of {root} ends at {end}, before offset {offset}: give a smaller offset")
        at = self._record_at(max(offset, starts[0]))
        plan = TruncationPlan(root, at, no_log=at <= starts[0])
        words = identity_words(files, self._paths)
        plan.replica = f"replica {words[2]} of {words[1]} in {words[0]}" if words else ""
        plan.cut_bytes = end - at
        plan.followers = sum(run.count for run in self._survey.runs_behind(at))
        plan.confirmed_bytes = max(min(load_checkpoint(files, root).held_offset, end) - at, 0)
        plan.reason = f"truncate the log at offset {at}" if plan.cut_bytes else ""
        return plan

    def _data_end(self, starts: list[int]) -> int:
        """Return the offset after the last non-zero byte. Files created ahead of use contain only zeros."""
        return next((end for start in reversed(starts) if (end := self._survey.last_data(start)) > start), starts[0])

    def _record_at(self, offset: int) -> int:
        """Return the start of the record that contains this offset, or the end of the valid records before it."""
        size = int(self._log.segment_size)
        at, want = offset - offset % size, CHUNK
        while at < offset:
            data = self._log.read(at, min(want, offset - offset % size + size - at))
            passed = pass_records(data, 0, at, False, NO_LIMIT, offset)
            self._found.store_timestamp = max(self._found.store_timestamp, int(passed.store_timestamp))
            if passed.end == 0:
                break
            at += int(passed.end)
        return at

    def _set_aside(self, plan: Plan, folder: str) -> None:
        """Move derived files first: a start rebuilds them from the log, but rejects them without a log."""
        super()._set_aside(plan, folder)
        set_aside(self._files, [f"{self._root}/commitlog"], folder)
