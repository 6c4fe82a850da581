"""Determines the minimum end of the log from the other files, and rejects a start if the log is shorter.

Only a tail that was never synced may be truncated automatically. Its extent depends on how the last run ended:

* *Clean stop.* Everything was synced, so missing or invalid bytes are damage.
* *The process was killed, but the host kept running.* The page cache lost no data: the log has every write, and all
  records except the last are complete. An invalid record is damage if it has a queue unit or valid records follow it.
* *The host went down.* Any unsynced sector may be lost even if later ones exist, so a hole followed by valid records is
  not damage. The bytes that the checkpoint records as synced must exist. With sync flush, every record that has a queue
  unit must exist too, because units are added after the sync.
* *Unknown* (RocketMQ's broker was killed). As after a kill, but queue units are evidence only if the log also ends
  before the flush time in the checkpoint.
"""

from __future__ import annotations

from msgspec import Struct

from bolide.layout.checkpoint import Checkpoint
from bolide.store.disk.lock import RunMark
from bolide.store.disk.segments import SegmentList
from bolide.store.errors import StoreDamaged
from bolide.store.startup.survey import NO_LIMIT, LogEnd, Run, Survey


class Traces(Struct, frozen=True):
    """Offsets of the log that other files record, and how the last run ended. Collected at startup."""

    abnormal: bool
    mark: RunMark | None
    boot_id: str
    checkpoint: Checkpoint
    noted_end: int
    """End of the log at a clean stop, or -1 if it was not recorded."""
    queues_end: int
    """Highest end of a record that has a consume queue unit, or -1."""

    @property
    def reached(self) -> int:
        """Highest end of the log that any other file records, or a value below 1 if no file records one."""
        checkpoint = self.checkpoint
        return max(self.noted_end, self.queues_end, checkpoint.logics_physical_offset, checkpoint.synced_end)

    @property
    def kept_all(self) -> bool:
        """Whether the log has everything that was written, or with sync flush everything that was synced."""
        mark = self.mark
        if not self.abnormal or mark is None:
            return not self.abnormal
        return mark.sync_flush or (mark.boot_id != "" and mark.boot_id == self.boot_id)


class Known(Struct, frozen=True):
    """The log reaches at least to `end`. With `holes`, valid records may follow invalid bytes after it.

    `why` states the evidence, with {} for the offset.
    """

    end: int
    why: str
    holes: bool = False


def known_to_reach(traces: Traces, found: LogEnd, end_of_files: int) -> Known:
    """Return the offset up to which the log was certainly synced, or at least written, with the evidence."""
    checkpoint, mark = traces.checkpoint, traces.mark
    # Ignore a unit beyond all log files: a queue file may be damaged, and is rebuilt from the log.
    queues = Known(max(traces.queues_end, 0), "queue files name records up to {}")
    if queues.end > end_of_files:
        queues = Known(0, "")
    dispatched = Known(checkpoint.logics_physical_offset, "the checkpoint names records up to {}")
    if dispatched.end > 0:
        dispatched = Known(dispatched.end + 1, dispatched.why)
    if not traces.abnormal:
        noted = Known(traces.noted_end, "at the last clean stop it reached {}")
        return noted if noted.end >= 0 else _highest(queues, dispatched)
    if mark is None:
        flushed = found.store_timestamp >= checkpoint.physic_msg_timestamp
        return Known(0, "") if flushed else queues
    synced = Known(0, "")
    if checkpoint.run_id == mark.run_id:
        synced = Known(checkpoint.synced_end, "it was synced up to {}")
    if mark.boot_id and mark.boot_id == traces.boot_id:
        return _highest(synced, queues, dispatched)
    if mark.sync_flush:
        synced = _highest(synced, queues, dispatched)
    return Known(synced.end, synced.why, holes=True)


def whole_until(traces: Traces, end_of_files: int) -> int:
    """Return the offset up to which records are complete. Later records may lack sectors, because their write may have
    been in progress when the last run ended.

    No CRC covers topic and properties, so these must be searched for lost sectors. RocketMQ's brokers do not record how
    their run ended, so their records are not searched.
    """
    if not traces.abnormal or traces.mark is None:
        return NO_LIMIT
    return known_to_reach(traces, LogEnd(0), end_of_files).end


def _highest(*known: Known) -> Known:
    return max(known, key=lambda one: one.end)


def refuse_lost_log(traces: Traces, root: str) -> None:
    """Raise `StoreDamaged` if the log has no file but had one."""
    if traces.reached > 0:
        raise StoreDamaged(
            f"{root}/commitlog has no log file, although the log had reached offset {traces.reached}: restore the "
            f"folder, or run `bolide store repair {root}` to see the possible repair"
        )


def refuse_damage(log: SegmentList, root: str, survey: Survey, found: LogEnd, known: Known, torn: bool) -> None:
    """Raise `StoreDamaged` unless the bytes after the last valid record are a tail that was never synced.

    `torn`: whether non-zero bytes follow in the same file.
    """
    short = found.end < known.end
    if known.holes and not short:
        return
    behind = [] if known.holes else later_runs(log, survey, found, torn)
    if not short and not behind:
        return
    path = log.path_at(found.end) or log.path_for(found.end)
    size = int(log.segment_size)
    text = f"{path} holds {survey.fault_at(found.end)} at byte {found.end % size} (physical offset {found.end})"
    if short:
        text += ", but " + known.why.format(known.end)
    if behind:
        count = sum(run.count for run in behind)
        text += f", and {count} good record{'s' if count != 1 else ''} from {behind[0].begin} on follow it"
    raise StoreDamaged(
        f"the log of {root} is damaged and was not changed: {text}; restore the folder from a copy, or run `bolide "
        f"store repair {root}` to see the possible repair"
    )


def later_runs(log: SegmentList, survey: Survey, found: LogEnd, torn: bool) -> list[Run]:
    """Return the valid records after the end, except records left by an earlier truncation.

    RocketMQ's broker does not zero truncated bytes. Such records are older than the last valid record before the end.
    """
    size = int(log.segment_size)
    at = found.end if torn else found.end - found.end % size + size
    runs: list[Run] = []
    for run in survey.runs_behind(at):
        if run.store_timestamp >= found.store_timestamp:
            runs.append(run)
    return runs
