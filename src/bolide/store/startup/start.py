"""The start of a store: load the files, finish an interrupted truncation, and recover.

After a crash between any two steps, the next start can read the folder.
"""

from __future__ import annotations

from bolide.layout.checkpoint import Checkpoint
from bolide.layout.shape import StoreShape
from bolide.store.cut import LogCut
from bolide.store.disk.checkpoint_file import load_checkpoint
from bolide.store.disk.format_stamp import stamp_format
from bolide.store.disk.lock import RunMark, mark_running, read_mark, was_killed
from bolide.store.index.index_service import IndexService
from bolide.store.log.commit_log import CommitLog
from bolide.store.options import StoreOptions
from bolide.store.queues.consume_queues import ConsumeQueues
from bolide.store.startup.inventory import drop_inventory, log_end_of, read_inventory
from bolide.store.startup.known_end import Traces
from bolide.store.startup.recovery import Recovery, RecoveryReport
from bolide.store.startup.shared_files import check_own_files


class StoreStart:
    """Opens the log in the folder `root`, its queues and its index. The caller holds the lock of the folder."""

    def __init__(
        self,
        root: str,
        shape: StoreShape,
        options: StoreOptions,
        log: CommitLog,
        queues: ConsumeQueues,
        index: IndexService,
        log_cut: LogCut,
    ) -> None:
        self.checkpoint = Checkpoint()
        """The checkpoint that is valid after `run`."""
        self._files = log.files
        self._root = root
        self._shape = shape
        self._options = options
        self._log = log
        self._queues = queues
        self._index = index
        self._log_cut = log_cut

    def run(self, now: int) -> RecoveryReport:
        """Load and recover. Raises `StoreDamaged` (without changing damaged files), `StoreTooNew` and `FileFailed`."""
        files, root, log = self._files, self._root, self._log
        stamp_format(files, root)
        report = RecoveryReport()
        report.abnormal = was_killed(files, root)
        for name in ("commitlog", "consumequeue", "index"):
            # `_mark_running` syncs these names before the first file in one of the folders matters.
            files.make_dir(f"{root}/{name}")
        log.segments.load()
        checkpoint = load_checkpoint(files, root)
        self._queues.deleted.load()
        self._queues.load()
        check_own_files(files, root, log, self._queues)
        report.deleted_files += self._index.load(report.abnormal, checkpoint.index_msg_timestamp)
        self._queues.recover(not report.abnormal)
        self.checkpoint = checkpoint = self._log_cut.finish(checkpoint)
        recovery = Recovery(log.segments, self._queues, self._index, self._shape, self._options, report)
        inventory = read_inventory(files, root)
        boot_id = files.boot_id(root)
        traces = Traces(
            report.abnormal,
            read_mark(files, root) if report.abnormal else None,
            boot_id,
            checkpoint,
            log_end_of(inventory),
            self._queues.max_physical_offset(),
        )
        # A rejected start keeps all evidence of the damage: the log, the run marker and the inventory.
        recovery.look(traces, inventory, root)
        if not report.abnormal:
            self._mark_running(boot_id, now)
        drop_inventory(files, root)
        self._queues.deleted.start(int(log.segments.min_offset), report.log_end)
        self._queues.drop_deleted()
        end = recovery.run(checkpoint, now)
        # Recovered bytes may be only in the page cache, so sync them before they can be read. Sync zeroed bytes too,
        # even in another file: otherwise the old bytes could reappear and mix with the next record.
        log.segments.datasync_to(end + 1, report.scanned_from)
        if report.abnormal:
            # Only now: if this start is killed earlier, the next one must still find that a power failure may have
            # left holes.
            self._mark_running(boot_id, now)
        log.start_at(end, report.last_store_timestamp, now, report.scanned_from, report.check_next)
        return report

    def _mark_running(self, boot_id: str, now: int) -> None:
        mark_running(self._files, self._root, RunMark(boot_id, now, self._options.sync_flush))
