"""The epochs of this broker's log, in memory and in their file: the file is never behind the log."""

from __future__ import annotations

from bolide.node.machine.node_world import NodeWorld
from bolide.node.replication.epoch_file import keep_epochs, load_epochs
from bolide.replication.epochs import Epochs
from bolide.replication.errors import NotReplicated
from bolide.replication.sure_end import SureEnd
from bolide.store.raw_log import RawLog


class EpochLog:
    """The epochs of one log. Each method writes in the pool, and returns once the file is synced."""

    def __init__(self, world: NodeWorld, path: str, raw: RawLog) -> None:
        """Raises `StoreDamaged`. A crash after a cut of the log leaves epochs from its end on: they hold no byte."""
        self._world = world
        self._path = path
        self._raw = raw
        found = load_epochs(world.files, path)
        self._in_file = found.entries
        self.epochs: Epochs = found.cut_at(int(raw.end))
        self.sure_end: SureEnd | None = None
        """Of a master that may have lost what it had sent in this epoch; None where nothing is in doubt."""

    async def keep(self, epochs: Epochs) -> None:
        """These are the epochs from here on. Raises `FileFailed`, with the old ones kept."""
        epochs = epochs.without_before(int(self._raw.begin))
        if epochs.entries != self._in_file:
            # Crash before this: the old epochs, of which those from the end of the log on hold no byte.
            await self._world.in_thread(keep_epochs, self._world.files, self._path, epochs)
            self._in_file = epochs.entries
        self.epochs = epochs

    async def lead(self, number: int, certain: bool) -> None:
        """This broker is the master of an epoch: its file says so before the first byte is appended.

        `certain`: all that slaves may have been sent is in this log. A master that was one in this epoch already, and
        is not certain, begins it at its end, as in RocketMQ: slaves give up what they have of it. Without an older
        epoch they would have nothing in common with this log then, so there each is told where it surely is the same.
        Raises `NotReplicated` for an epoch older than the log's, and `FileFailed`.
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
        # The log of a broker that had no controller belongs to its first epoch: nobody else has another one.
        start = end if epochs.last is not None else int(self._raw.begin)
        await self.keep(epochs.begun(number, start))

    async def cut(self, end: int) -> None:
        """The log was cut, durably, and ends here. Nothing may be appended before this returns: what follows would
        be taken for bytes of the epochs that were cut off."""
        await self.keep(self.epochs.cut_at(end))
