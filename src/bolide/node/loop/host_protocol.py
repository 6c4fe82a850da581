"""What the executor asks of the process around it: the seam between deciding order and touching sockets and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bolide.broker.core.channel import Channel
from bolide.remoting.command import Command
from bolide.store.disk.extents import Extent
from bolide.store.disk.jobs import Job
from bolide.store.disk.reads import Fetched


class Host(Protocol):
    """All methods are called on the loop and return at once. `node.loop.host.NodeHost` is the real one."""

    def write(self, channel: Channel) -> int:
        """Hand the channel's frames to its socket; the bytes the peer leaves unread, 0 while it keeps up."""

    def pause_reading(self, channel: Channel) -> None:
        """Read nothing from the channel's socket until `resume_reading`."""

    def resume_reading(self, channel: Channel) -> None:
        """Read from the channel's socket again."""

    def close(self, channel: Channel) -> None:
        """Close the channel's socket; the executor's `closed` is called when it is."""

    def another_turn(self) -> None:
        """Call `end_of_turn` again soon."""

    def start_flush(self, target: int) -> None:
        """Sync the log up to `target` in the flush thread; `flushed` or `flush_failed` is called after it."""

    def load(self, extents: list[Extent], then: Callable[[int], None], fetched: Fetched | None = None) -> None:
        """Read extents in the pool, then call `then(now)`; with `fetched` (a store's) what was read is kept there."""

    def run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        """Run a job of the store in the pool, then call `done(job, error text)` on the loop."""

    def persist(self, names: set[str], then: Callable[[str], None]) -> None:
        """Write these tables to their files as they are now, then call `then(error)` on the loop; "" when all are."""

    def register(self, topic_names: set[str]) -> None:
        """Register these topics ("" = all) with every name server."""

    def store_failed(self, error: BaseException) -> None:
        """The log cannot be written or synced any more: stop serving and exit."""

    def failed(self, what: str, error: BaseException) -> None:
        """Write one line (and the traceback of an internal error) to the log."""

    def refused(self, channel: Channel, request: Command, response: Command) -> None:
        """Write one line about a request that is answered with an error of the peer's."""


class Replication(Protocol):
    """Other machines that hold the log, or from which it comes (`node.replication`)."""

    def turn(self, now: int) -> None:
        """The log was written, and may have been synced: send, report, and say how far it may be dispatched."""

    def late(self, end: int) -> bool:
        """True when a record that ends here is not held by as many machines as its send was to wait for."""
