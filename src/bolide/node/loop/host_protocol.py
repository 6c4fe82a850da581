"""Interface between the executor, which decides, and the process around it, which owns sockets and threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bolide.broker.core.channel import Channel
from bolide.remoting.codec import Response
from bolide.remoting.command import Command
from bolide.store.disk.extents import Extent
from bolide.store.disk.jobs import Job
from bolide.store.disk.reads import Fetched


class Host(Protocol):
    """All methods are called on the loop and do not block. `node.loop.host.NodeHost` implements them."""

    def write(self, channel: Channel) -> int:
        """Pass the channel's frames to its socket. Return the bytes that the peer has not read, 0 while it keeps up."""

    def pause_reading(self, channel: Channel) -> None:
        """Stop reading from the channel's socket until `resume_reading`."""

    def resume_reading(self, channel: Channel) -> None:
        """Resume reading from the channel's socket."""

    def close(self, channel: Channel) -> None:
        """Close the channel's socket. The executor's `closed` is called afterwards."""

    def another_turn(self) -> None:
        """Schedule another call of `end_of_turn`."""

    def start_flush(self, target: int) -> None:
        """Sync the log up to `target` in the flush thread, then call `flushed` or `flush_failed`."""

    def load(self, extents: list[Extent], then: Callable[[int], None], fetched: Fetched | None = None) -> None:
        """Read extents in the thread pool, then call `then(now)`. With `fetched` (of a store), keep the data there."""

    def run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        """Run a job of the store in the pool, then call `done(job, error text)` on the loop."""

    def persist(self, names: set[str], then: Callable[[str], None]) -> None:
        """Write the current content of these tables, then call `then(error)` on the loop. `error` is "" on success."""

    def register(self, topic_names: set[str]) -> None:
        """Register these topics ("" = all) with every name server."""

    def store_failed(self, error: BaseException) -> None:
        """Stop serving and exit, because the log can no longer be written or synced."""

    def failed(self, what: str, error: BaseException) -> None:
        """Write one line (and the traceback of an internal error) to the log."""

    def refused(self, channel: Channel, request: Command, response: Response) -> None:
        """Log a request that is rejected because of an error of the peer."""


class Replication(Protocol):
    """Replication of the log to or from other brokers (`node.replication`)."""

    def turn(self, now: int) -> None:
        """Called after the log was written, and possibly synced: send, report, and set the offset up to which to
        dispatch."""

    def late(self, end: int) -> bool:
        """Return whether the record that ends at `end` is on fewer brokers than its send requires."""
