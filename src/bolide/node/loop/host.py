"""What the executor needs of the process around it: sockets to write to, threads that may wait, a log, an end.

Implements `node.loop.host_protocol.Host`. One for each node; it owns the pool and the flush thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, final

from bolide.broker.core.channel import Channel
from bolide.node.loop.flusher import FlushThread
from bolide.node.loop.persist import ConfigFiles
from bolide.node.loop.refusals import Refusals
from bolide.node.loop.turns import Turns
from bolide.remoting.command import Command
from bolide.store.extents import Extent
from bolide.store.files import Files
from bolide.store.jobs import Job
from bolide.store.reads import Fetched

POOL_THREADS: Final = 4


@final
class NodeHost:
    """Carries out what the executor asks for. `turns` is set once both exist."""

    def __init__(self, name: str, loop: asyncio.AbstractEventLoop, files: Files) -> None:
        self.log: logging.Logger = logging.getLogger(name)
        self._refusals = Refusals(self.log)
        self.turns: Turns | None = None
        self.flusher: FlushThread | None = None
        self.configs: ConfigFiles | None = None
        self.on_register: Callable[[set[str]], None] | None = None
        self.on_store_failed: Callable[[BaseException], None] | None = None
        self.pool: ThreadPoolExecutor = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="bolide-pool")
        self._loop: asyncio.AbstractEventLoop = loop
        self._files: Files = files

    def write(self, channel: Channel) -> int:
        """Hand the channel's frames to its socket; the bytes the peer leaves unread, 0 while it keeps up."""
        frames = channel.frames
        channel.frames = []
        bodies = channel.bodies
        channel.bodies = False
        return channel.link.write(frames, bodies)

    def pause_reading(self, channel: Channel) -> None:
        """Read nothing from the channel's socket until `resume_reading`."""
        channel.link.pause_reading()

    def resume_reading(self, channel: Channel) -> None:
        """Read from the channel's socket again."""
        channel.link.resume_reading()

    def close(self, channel: Channel) -> None:
        """Close the channel once what is queued has been sent."""
        self.write(channel)
        channel.link.close()

    def another_turn(self) -> None:
        """End one more turn soon."""
        if self.turns is not None:
            self.turns.schedule()

    def start_flush(self, target: int) -> None:
        """Sync the log in the flush thread."""
        assert self.flusher is not None
        self.flusher.start(target)

    def load(self, extents: list[Extent], then: Callable[[int], None], fetched: Fetched | None = None) -> None:
        """Read extents into memory in the pool, then go on on the loop."""
        self.pool.submit(self._load, extents, then, fetched)

    def run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        """Run a job of the store in the pool, then report it on the loop."""
        self.pool.submit(self._run, job, done)

    def persist(self, names: set[str], then: Callable[[str], None]) -> None:
        """Write tables to their files, then go on on the loop."""
        if self.configs is None:
            then("")
        else:
            self.configs.write(names, self.pool, then)

    def register(self, topic_names: set[str]) -> None:
        """Register topics with the name servers."""
        if self.on_register is not None:
            self.on_register(topic_names)

    def store_failed(self, error: BaseException) -> None:
        """The log can no longer be trusted: shut the broker down."""
        self.log.critical("the log cannot be trusted any more, stopping: %s", error)
        if self.on_store_failed is not None:
            self.on_store_failed(error)

    def failed(self, what: str, error: BaseException) -> None:
        """One line and the traceback of a fault of ours."""
        self.log.error("%s failed: %s: %s", what, type(error).__name__, error, exc_info=error)

    def refused(self, channel: Channel, request: Command, response: Command) -> None:
        """One line."""
        self._refusals.note(channel.remote, request, response, self.turns.now() if self.turns is not None else 0)

    def _load(self, extents: list[Extent], then: Callable[[int], None], fetched: Fetched | None) -> None:
        got: list[tuple[Extent, bytes, str]] = []
        for extent in extents:
            data, problem = b"", ""
            try:
                if fetched is None:
                    self._files.warm(extent.path, extent.offset, extent.size)
                else:
                    data = self._files.fetch(extent.path, extent.offset, extent.size)
            except Exception as error:  # the read that follows meets the same fault and answers for it
                problem = str(error)
                self.log.warning("cannot read ahead %s: %s", extent.path, error)
            got.append((extent, data, problem))
        try:
            self._loop.call_soon_threadsafe(self._loaded, then, fetched, got)
        except RuntimeError:
            return  # the loop is closed

    def _run(self, job: Job, done: Callable[[Job, str], None]) -> None:
        error = ""
        try:
            job.run()
        except Exception as raised:  # the store decides what a failed job means
            error = f"{type(raised).__name__}: {raised}"
            self.log.warning("%s failed: %s", type(job).__name__, error)
        try:
            self._loop.call_soon_threadsafe(done, job, error)
        except RuntimeError:
            return  # the loop is closed

    def _loaded(
        self, then: Callable[[int], None], fetched: Fetched | None, got: list[tuple[Extent, bytes, str]]
    ) -> None:
        turns = self.turns
        if fetched is not None:
            for extent, data, problem in got:
                fetched.add(extent, data, problem)
        assert turns is not None
        then(turns.now())
        turns.schedule()
