"""How far the log must reach according to the other files, and what to do when it does not.

Only a tail that was never synced may be cut without asking. Which tail that is depends on how the last run ended:

* *It stopped cleanly.* All was synced, so whatever is missing or bad is damage.
* *It was killed, and the machine has run since.* The page cache lost nothing: the log holds every write, and all but
  the last are whole. So what queues name is damage when it is bad, and so is anything bad that good records follow.
* *The machine went down.* Of what was not synced any sector may be lost, and later ones kept: a hole followed by good
records is not damage there. What the checkpoint says was synced must be there; with sync flush also what queues
  name, for they got it after the sync.
* *Nobody knows* (RocketMQ's broker was killed). As after a kill, but queues count only where the checkpoint's time
  of the last flush agrees.
"""

from __future__ import annotations

from msgspec import Struct

from bolide.layout.checkpoint import Checkpoint
from bolide.store.disk.lock import RunMark
from bolide.store.disk.segments import SegmentList
from bolide.store.errors import StoreDamaged
from bolide.store.startup.survey import NO_LIMIT, LogEnd, Run, Survey


class Traces(Struct, frozen=True):
    """What a start finds beside the log. Offsets are bytes of the log."""

    abnormal: bool
    mark: RunMark | None
    boot_id: str
    checkpoint: Checkpoint
    noted_end: int
    """The log's end at a clean stop; -1 when it was not noted."""
    queues_end: int
    """The highest end of a record that has a unit; -1 when there is none."""

    @property
    def reached(self) -> int:
        """The highest end of the log that any other file names; not positive if no file names one."""
        checkpoint = self.checkpoint
        return max(self.noted_end, self.queues_end, checkpoint.logics_physical_offset, checkpoint.synced_end)

    @property
    def kept_all(self) -> bool:
        """True when the log has all that was written, or with sync flush all that was synced."""
        mark = self.mark
        if not self.abnormal or mark is None:
            return not self.abnormal
        return mark.sync_flush or (mark.boot_id != "" and mark.boot_id == self.boot_id)


class Known(Struct, frozen=True):
    """The log reaches at least to `end`; with `holes` good records may follow bad bytes beyond it.

    `why` says how that is known, with {} for the offset.
    """

    end: int
    why: str
    holes: bool = False


def known_to_reach(traces: Traces, found: LogEnd, end_of_files: int) -> Known:
    """How far the log was certainly synced, or at least written."""
    checkpoint, mark = traces.checkpoint, traces.mark
    # A unit beyond all files proves nothing: a queue file can be damaged too, and is made again from the log.
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
    """Records that end by this offset are whole; later ones may have been under way when the last run ended.

    No CRC covers their topic and properties, so a hole in these has to be looked for. RocketMQ's brokers leave no mark
    that says how their run ended; their records are taken as they are.
    """
    if not traces.abnormal or traces.mark is None:
        return NO_LIMIT
    return known_to_reach(traces, LogEnd(0), end_of_files).end


def _highest(*known: Known) -> Known:
    return max(known, key=lambda one: one.end)


def refuse_lost_log(traces: Traces, root: str) -> None:
    """There is no file of the log: raise `StoreDamaged` when there was one."""
    if traces.reached > 0:
        raise StoreDamaged(
            f"{root}/commitlog has no log file, but queue files, checkpoint or the last stop show that the log reached "
            f"{traces.reached}; the log was not changed: restore the folder, or run `bolide store repair {root}` to "
            "see the possible repair"
        )


def refuse_damage(log: SegmentList, root: str, survey: Survey, found: LogEnd, known: Known, torn: bool) -> None:
    """Raise `StoreDamaged` unless what follows the last good record is a tail that was never synced.

    `torn` says that something else than zeros follows in the same file.
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
    """The good records after the end, without older ones that an earlier cut left there.

    RocketMQ's broker does not wipe what it cuts off. Such bytes are older than the last good record before the end.
    """
    size = int(log.segment_size)
    at = found.end if torn else found.end - found.end % size + size
    runs: list[Run] = []
    for run in survey.runs_behind(at):
        if run.store_timestamp >= found.store_timestamp:
            runs.append(run)
    return runs
