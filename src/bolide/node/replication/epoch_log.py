"""Epochs of this broker's log, in memory and on disk. The file is never older than the log."""

from __future__ import annotations

from bolide.node.machine.node_world import NodeWorld
from bolide.node.replication.epoch_file import keep_epochs, load_epochs
from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.sure_end import SureEnd
from bolide.store.raw_log import RawLog


class EpochLog:
    """Epochs of one log. Each method writes in the thread pool and returns once the file is synced."""

    def __init__(self, world: NodeWorld, path: str, raw: RawLog) -> None:
        """Raises `StoreDamaged`. A crash after a truncation of the log leaves epochs past its end. They contain no
        bytes."""
        self._world = world
        self._path = path
        self._raw = raw
        found = load_epochs(world.files, path)
        self._in_file = found.entries
        self.epochs: Epochs = found.cut_at(int(raw.end))
        self.sure_end: SureEnd | None = None
        """Safe end offsets, on a master that may have lost bytes that it had sent in this epoch; otherwise None."""

    async def keep(self, epochs: Epochs) -> None:
        """Replace the epochs. Raises `FileFailed`; the old epochs then remain in effect."""
        epochs = epochs.without_before(int(self._raw.begin))
        if epochs.entries != self._in_file:
            # After a crash here, the old epochs remain. Epochs past the end of the log contain no bytes.
            await self._world.in_thread(keep_epochs, self._world.files, self._path, epochs)
            self._in_file = epochs.entries
        self.epochs = epochs

    async def lead(self, number: int, certain: bool) -> None:
        """Start an epoch of this broker as master. The file is synced before the first byte is appended.

        `certain`: whether this log contains everything that slaves may have received. If not, and the log already has
        this epoch, the epoch restarts at the end of the log, as in RocketMQ, and slaves truncate their part of it.
        Without an older epoch, the logs would then have no epoch in common, so each slave is sent the safe end offset
        instead. Raises `NotReplicated` for an epoch older than the log's, and `FileFailed`.
        """
        epochs, last, end = self.epochs, self.epochs.last, int(self._raw.end)
        if last is not None and last.number > number:
            raise NotReplicated(
                f"the controller started epoch {number}, but this log already has epoch {last.number}: the controller "
                "has lost the state of this set"
            )
        if last is not None and last.number == number:
            if certain:
                return
            epochs = epochs.below_number(number)
            if epochs.last is None:
                self.sure_end = SureEnd(end)
                return
        self.sure_end = None
        # The log of a broker without a controller becomes part of its first epoch, because no other broker has a
        # different log.
        start = end if epochs.last is not None else int(self._raw.begin)
        await self.keep(epochs.begun(number, start))

    async def cut(self, end: int) -> None:
        """Truncate the epochs after the log was durably truncated to `end`. Do not append before this returns: new
        bytes would be assigned to truncated epochs. Raises `FileFailed`; then only the file contains the old epochs,
        and the next change replaces it."""
        self.epochs = self.epochs.cut_at(end)
        await self.keep(self.epochs)
