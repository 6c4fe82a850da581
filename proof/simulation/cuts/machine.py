"""One broker without sockets, threads or an event loop: its services, its executor and its store on a simulated disk.

What a node does on its loop and in its threads is done here one step at a time, in an order of chance: a request, the
end of a turn, a tick, a job of the pool, a sync of the log. The start and the stop are those of `BrokerNode`, in its
order. Every answer reaches the channel that asked, unless the power failed before.
"""

from __future__ import annotations

import heapq
import logging
import random
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from bolide import plugins
from bolide.broker.append.uniq_key import UniqKeys
from bolide.broker.core.channel import Channel
from bolide.broker.core.effects import Effects
from bolide.broker.core.role import Role
from bolide.broker.core.wait_table import WaitTable
from bolide.broker.expressions import ExpressionTypes
from bolide.broker.operator.inspection import MachineUse
from bolide.broker.options.composed import BrokerOptions
from bolide.broker.tables.filters import ConsumerFilters
from bolide.broker.tables.pull_filter import FilterCache
from bolide.layout.message_id import encode_host
from bolide.layout.shape import StoreShape
from bolide.node.assembly import BrokerParts, Surroundings
from bolide.node.loop.executor import Executor
from bolide.node.loop.flusher import FlushThread
from bolide.node.loop.host import NodeHost
from bolide.node.loop.persist import ConfigFiles
from bolide.remoting.command import Command, make_request
from bolide.remoting.connection import FramedConnection
from bolide.remoting.request_routes import NO_CODES
from bolide.remoting.response_bytes import Buffer
from bolide.store.message_store import MessageStore
from bolide.store.options import Resources
from proof.simulation.disk import Disk, PowerFails

ROOT: Final = "/machine/store"
PEER: Final = encode_host("10.0.0.9", 4000)
HOST: Final = encode_host("10.0.0.1", 10911)


class Peer:
    """A client's end of a connection: implements `Link`, and hands what arrives to `told`."""

    used = False
    idle_since = 0

    def __init__(self, disk: Disk, told: Callable[[Command], None]) -> None:
        self._disk = disk
        self._told = told
        self._frames = FramedConnection()

    def write(self, frames: list[Buffer], bodies: bool) -> int:
        """A machine without power sends nothing."""
        if not self._disk.dead:
            for command in self._frames.receive(b"".join(frames)):
                self._told(command)
        return 0

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    def close(self) -> None:
        return

    def close_idle(self) -> None:
        return

    def abort(self) -> None:
        return


class Jobs(Pool):
    """Work for threads: a pool, and the worker that syncs. Nothing runs before `run`."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], object]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.waiting.append(partial(fn, *args, **kwargs))
        return Future()

    def give(self, job: Callable[[], object]) -> None:
        """As a worker."""
        self.waiting.append(job)

    def stop(self, patience: float | None = None) -> bool:
        """As a worker: finish."""
        self.finish()
        return True

    def run(self, at: int = 0) -> None:
        """Do one job."""
        self.waiting.pop(at)()

    def finish(self) -> None:
        """Do all jobs."""
        while self.waiting:
            self.run()


class Machine:
    """One run of a broker on a disk; implements `HostOwner`. `now` is the time, which the caller moves."""

    def __init__(self, disk: Disk, options: BrokerOptions, now: int) -> None:
        self.disk = disk
        self.options = options
        self.now = now
        self.lines: list[str] = []
        """What it logged."""
        self.failure = ""
        """Why it stopped by itself."""
        self.pool = Jobs()
        self.flushes = Jobs()
        self.turns = 0
        self._soon: deque[Callable[[], object]] = deque()
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._serial = 0
        self._log = logging.Logger("machine")
        self._log.addHandler(_Keeper(self.lines))

    # -- start and stop, in the order of BrokerNode --

    def boot(self) -> None:
        """Recover and serve. Raises `PowerFails` and the store's errors."""
        options, disk, now = self.options, self.disk, self.now
        disk.now_ms = now
        effects = Effects()
        expression_types = ExpressionTypes(
            partial(plugins.find, plugins.EXPRESSION_TYPES),
            options.filters.max_filter_length,
            options.filters.max_filter_operations,
        )
        filters = ConsumerFilters(
            options, FilterCache(expression_types), effects, now, lambda now: self.store.store_time(now)
        )
        self.store = store = MessageStore(
            disk, ROOT, StoreShape.of(options.shape), options.store, filters.calc_bitmap, Resources(1 << 33, 64)
        )
        self.report = store.load(now)
        keys = UniqKeys(HOST[:4], 1, 2)
        around = Surroundings(
            Role.of(options),
            HOST,
            keys,
            dict,
            lambda changes: None,
            lambda: MachineUse(1 << 40, 1 << 40, 0),
            self.clock,
            lambda: self.now / 1000,
            None,
            self._log,
        )
        self.parts = parts = BrokerParts(options, store, effects, around, filters, [], now)
        self.configs = ConfigFiles(
            disk, ROOT + "/config", parts.services.persisted, self._soon.append, self._later, lambda: self.now / 1000
        )
        self.configs.load()
        parts.cut(self.configs, self.report.abnormal, now)
        flusher = FlushThread(self.flushes, store.sync_commit_log, self._call_soon, self._flushed, self._flush_failed)
        host = NodeHost(self, self._log, disk, self.pool, self._call_soon, self.clock, flusher, self.configs)
        waiters = WaitTable(options.pull.max_held_requests)
        self.executor = Executor(parts.services, effects, host, parts.stats, store, waiters, options)
        parts.timers.load(now)
        parts.transactions.begin(now)
        parts.services.start(now)
        self._alive()

    def stop(self) -> None:
        """A clean stop."""
        self.turn()
        for _ in range(100):
            if self.executor.unanswered == 0:
                break
            self.settle()
        self.flushes.finish()
        self.configs.stop()
        self.pool.finish()
        self.run_soon()
        self.store.close(self.now)
        self.configs.write_all_now()
        self._alive()

    def _alive(self) -> None:
        if self.disk.dead:
            raise PowerFails("the machine is off")

    # -- HostOwner --

    def clock(self) -> int:
        """The time; it stands still within a step."""
        return self.now

    def another_turn(self) -> None:
        """One more turn is wanted."""
        self.turns += 1

    def register(self, topic_names: set[str]) -> None:
        """There is no name server."""

    def store_failed(self, error: BaseException) -> None:
        """The process would end."""
        self.failure = str(error)

    # -- steps --

    def connect(self, number: int, told: Callable[[Command], None]) -> Channel:
        """A client connects."""
        channel = Channel(number, PEER, f"10.0.0.9:{number}", 10911)
        channel.link = Peer(self.disk, told)
        return channel

    def ask(self, channel: Channel, code: int, opaque: int, ext: dict[str, str], body: bytes = b"") -> None:
        """A request arrives."""
        self.executor.handle(channel, make_request(code, opaque, ext, body), NO_CODES, self.now)
        self._alive()

    def turn(self) -> None:
        """The turn of the loop ends, and what threads reported is heard."""
        self.executor.end_of_turn(self.now)
        self._alive()
        self.run_soon()

    def run_soon(self) -> None:
        """What threads reported."""
        while self._soon:
            self._soon.popleft()()
            self._alive()

    def tick(self, milliseconds: int) -> None:
        """Time passes; what is due runs."""
        self.now += milliseconds
        self.disk.now_ms = self.now
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        if self.executor.next_due() <= self.now:
            self.executor.tick(self.now)
        self.turn()

    def pass_time(self, milliseconds: int, most: int = 400) -> None:
        """Time passes with every tick at its time, as far as `most` ticks go."""
        stop = self.now + milliseconds
        for _ in range(most):
            due = min(self.executor.next_due(), self._timers[0][0] if self._timers else stop)
            if due > stop:
                break
            self.tick(max(due - self.now, 1))
            self.settle()
        self.tick(max(stop - self.now, 1))
        self.settle()

    def work(self, choice: random.Random) -> bool:
        """One job of a thread, by chance; False when there is none."""
        flushes, pool = len(self.flushes.waiting), len(self.pool.waiting)
        if not flushes + pool:
            return False
        at = choice.randrange(flushes + pool)
        if at < flushes:
            self.flushes.run()
        else:
            self.pool.run(at - flushes)
        self._alive()
        self.run_soon()
        return True

    def settle(self) -> None:
        """Threads do all their work, and turns end until nothing more happens."""
        for _ in range(200):
            self.turns = 0
            self.turn()
            if not self.flushes.waiting and not self.pool.waiting and not self.turns:
                return
            self.flushes.finish()
            self.pool.finish()
            self._alive()
            self.run_soon()

    def _flushed(self, target: int) -> None:
        self.executor.flushed(target, self.now)

    def _flush_failed(self, error: BaseException) -> None:
        self._alive()
        self.executor.flush_failed(error)

    def _call_soon(self, call: Callable[..., object], *arguments: object) -> None:
        self._soon.append(partial(call, *arguments))

    def _later(self, seconds: float, then: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._timers, (self.now + int(seconds * 1000), self._serial, then))


class _Keeper(logging.Handler):
    """Keeps the last lines of a log."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(f"{record.levelname} {record.getMessage()}")
        del self._lines[:-50]
