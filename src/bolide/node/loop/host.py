"""Provides the executor with sockets, threads that may block, a log, and a shutdown.

Implements `node.loop.host_protocol.Host`. One per node; it owns the thread pool and the flush thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from typing import Final, Protocol, final

from bolide.broker.core.channel import Channel
from bolide.node.loop.disk_failures import DiskFailures
from bolide.node.loop.flusher import FlushThread
from bolide.node.loop.persist import ConfigFiles
from bolide.node.loop.refusals import Refusals
from bolide.remoting.codec import Response
from bolide.remoting.command import Command
from bolide.store.disk.extents import Extent
from bolide.store.disk.file_contract import FileFailed
from bolide.store.disk.files import Files
from bolide.store.disk.jobs import Job
from bolide.store.disk.reads import Fetched

POOL_THREADS: Final = 4


class HostOwner(Protocol):
    """The node that owns a host."""

    def another_turn(self) -> None:
        """Schedule another turn."""

    def register(self, topic_names: set[str]) -> None:
        """Register topics ("" = all) with the name servers."""

    def store_failed(self, error: BaseException) -> None:
        """Shut down, because the log can no longer be written or synced."""


@final
class NodeHost:
    """Implementation of `Host`. `soon` calls on the loop from any thread, `clock` returns the time in ms."""

    def __init__(
        self,
        owner: HostOwner,
        log: logging.Logger,
        files: Files,
        pool: Pool,
        soon: Callable[..., object],
        clock: Callable[[], int],
        flusher: FlushThread,
        configs: ConfigFiles,
    ) -> None:
        self.log = log
        self._owner = owner
        self._refusals = Refusals(log)
        self._disk_failures = DiskFailures(log)
        self._flusher = flusher
        self._configs = configs
        self._pool = pool
        self._soon = soon
        self._clock = clock
        self._files = files

    def write(self, channel: Channel) -> int:
        """Pass the channel's frames to its socket. Return the number of bytes that the peer has not read yet."""
        frames = channel.frames
        channel.frames = []
        bodies = channel.bodies
        channel.bodies = False
        return channel.link.write(frames, bodies)

    def pause_reading(self, channel: Channel) -> None:
        """Stop reading from the channel's socket until `resume_reading`."""
        channel.link.pause_reading()

    def resume_reading(self, channel: Channel) -> None:
        """Resume reading from the channel's socket."""
        channel.link.resume_reading()

    def close(self, channel: Channel) -> None:
        """Close the channel after its queued frames are sent."""
        self.write(channel)
        channel.link.close()

    def another_turn(self) -> None:
        """Schedule another turn."""
        self._owner.another_turn()

    def start_flush(self, target: int) -> None:
        """Sync the log in the flush thread."""
        self._flusher.start(target)

    def load(self, extents: list[Extent], then: Callable[[int], None], fetched: Fetched | None = None) -> None:
        """Read extents into memory in the pool, then call `then` on the loop."""
        self._pool.submit(self._load, extents, then, fetched)

    def run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        """Run a job of the store in the pool, then call `done(job, error)` on the loop. `error` is "" on success."""
        self._pool.submit(self._run, job, done)

    def persist(self, names: set[str], then: Callable[[str], None]) -> None:
        """Write tables to their files, then call `then` on the loop."""
        self._configs.write(names, self._pool, then)

    def register(self, topic_names: set[str]) -> None:
        """Register topics with the name servers."""
        self._owner.register(topic_names)

    def store_failed(self, error: BaseException) -> None:
        """Shut the broker down, because the log can no longer be trusted."""
        self.log.critical("the log cannot be written, and the broker stops: %s", error)
        self._owner.store_failed(error)

    def failed(self, what: str, error: BaseException) -> None:
        """Log one line, and the traceback of an internal error."""
        if isinstance(error, FileFailed):
            self._disk_failures.note(what, error, self._clock())
        else:
            log_failure(self.log, what, error)

    def refused(self, channel: Channel, request: Command, response: Response) -> None:
        """Log a rejected request."""
        self._refusals.note(channel.remote, request, response, self._clock())

    def _load(self, extents: list[Extent], then: Callable[[int], None], fetched: Fetched | None) -> None:
        got: list[tuple[Extent, bytes, str]] = []
        for extent in extents:
            data, problem = b"", ""
            try:
                if fetched is None:
                    self._files.warm(extent.path, extent.offset, extent.size)
                else:
                    data = self._files.fetch(extent.path, extent.offset, extent.size)
            except Exception as error:  # the following read fails in the same way and reports the error
                problem = str(error)
                self.log.warning("cannot read ahead %s: %s", extent.path, error)
            got.append((extent, data, problem))
        try:
            self._soon(self._loaded, then, fetched, got)
        except RuntimeError:
            return  # the loop is closed

    def _run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        error = ""
        try:
            job.run()
        except Exception as raised:  # the store decides how to handle a failed job
            error = f"{type(raised).__name__}: {raised}"
            self.log.warning("%s failed: %s", type(job).__name__, error)
        try:
            self._soon(done, job, error)
        except RuntimeError:
            return  # the loop is closed

    def _loaded(
        self, then: Callable[[int], None], fetched: Fetched | None, got: list[tuple[Extent, bytes, str]]
    ) -> None:
        if fetched is not None:
            for extent, data, problem in got:
                fetched.add(extent, data, problem)
        then(self._clock())
        self._owner.another_turn()


def log_failure(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log one line and the traceback of an internal error."""
    log.error("%s failed: %s: %s", what, type(error).__name__, error, exc_info=error)
