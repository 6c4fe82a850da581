"""Keeps retention from deleting log files that the checkpoint does not cover."""

from __future__ import annotations

from bolide.layout.checkpoint import Checkpoint


class CheckpointHold:
    """The log files of one store that retention must not delete before the next checkpoint.

    After a kill, recovery drops the queue units of records after the checkpoint and rebuilds them from the log. If the
    log no longer has these records, a queue would end too early, and its next messages would get offsets that consumers
    have passed.
    """

    def __init__(self, root: str, segment_size: int) -> None:
        self._root = root
        self._segment_size = segment_size
        self._held_at = -1
        """Start of the first held file after the last round, or -1 if retention did not need to delete it."""

    def keep_from(self, checkpoint: Checkpoint) -> int:
        """Return the start of the file with the last record that the checkpoint covers: later records of this file may
        not be covered."""
        covered = checkpoint.logics_physical_offset
        return covered - covered % self._segment_size

    def problem(self, keep_from: int, held: bool, sync_failed: bool) -> str:
        """Called after a round of retention. Return a sentence if it cannot delete files and the checkpoint has not
        advanced since the last round, or "". `held`: whether only `keep_from` prevented the deletion of a file."""
        stuck = held and self._held_at == keep_from
        self._held_at = keep_from if held else -1
        if not stuck:
            return ""
        remedy = "restart the broker" if sync_failed else "free space on the disk"
        return (
            f"retention cannot delete log files of {self._root} from offset {keep_from} on, because queues and index "
            f"on disk do not have their messages: {remedy}"
        )
