"""Simulated machines and the processes on them: how they start, stop, pause, are killed and lose their power."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

from proof.simulation.loop import ProcessLoop, Strand
from proof.simulation.network import Network
from proof.simulation.owner import Disk
from proof.simulation.scheduler import EPOCH_MS, Scheduler
from proof.simulation.threads import Gone, JobStrand, StoppingStrand
from proof.simulation.work import Work
from proof.simulation.world import ProcessWorld

SLOW: Final = 0.1
"""Part of the processes that get so little of their processor that a turn meets its limit of time."""
CLOSES: Final = 50
"""Times that a coroutine may answer its end with another wait before it is left alone."""
MOST_DRIFT: Final = 5e-5
"""By how much a clock is quick or slow, of all time that passes."""


class Host:
    """One machine: an address, a power supply and a time of day."""

    def __init__(self, scheduler: Scheduler, network: Network, name: str, ip: str) -> None:
        self.name = name
        self.ip = ip
        self.up = True
        self.processes: dict[str, Process] = {}
        self._scheduler = scheduler
        self._network = network
        chance = scheduler.stream(f"host {name}")
        self._set_ns = int(chance.uniform(-2e9, 2e9))
        self._drift = chance.uniform(-MOST_DRIFT, MOST_DRIFT)
        self._boot_s = chance.uniform(0, 1e6)

    def wall_ns(self, now: float) -> int:
        """Its time of day at this moment of the simulation."""
        return EPOCH_MS * 1_000_000 + self._set_ns + int(now * (1 + self._drift) * 1e9)

    def monotonic(self, now: float) -> float:
        """Seconds of its clock that nobody sets."""
        return self._boot_s + now

    def jump_clock(self, seconds: float) -> None:
        """Somebody sets the time of day."""
        self._set_ns += int(seconds * 1e9)
        self.note(f"its clock is set by {seconds:+.3f} s")

    def power_off(self, chance: Callable[[], int]) -> None:
        """Every process is gone, and every disk keeps what it keeps. `chance` gives a seed for each disk."""
        self.up = False
        self.note("loses its power")
        for process in list(self.processes.values()):
            process.power_cut(chance())

    def power_on(self) -> None:
        """It runs again; its processes are to be started."""
        if not self.up:
            self.up = True
            self._boot_s = -self._scheduler.now
            self.note("has power again")
            for connection in self._network.between(self.ip):
                end = connection.near if connection.ips[1] == self.ip else connection.far
                end.peer_is_up()

    def note(self, text: str) -> None:
        """A line of the trace."""
        self._scheduler.trace.note(self._scheduler.now, self.name, "machine", text)


class Process:
    """One process, from its start to its end; a restart makes another, with the same name and disk."""

    def __init__(self, network: Network, host: Host, name: str, number: int, disk: Disk) -> None:
        self.scheduler = network.scheduler
        self.network = network
        self.host = host
        self.name = name
        self.number = number
        self.disk = disk
        self.alive = True
        self.paused = False
        self.result: object = None
        self.error: BaseException | None = None
        self.faults: list[tuple[str, BaseException | None]] = []
        """What nobody in the process caught."""
        self.tasks: list[asyncio.Task[Any]] = []
        """Tasks that the scenario began in it."""
        self.ends: dict[Any, None] = {}
        self.stopped_jobs: dict[Any, None] = {}
        self.disk_calls = 0
        self.work = Work()
        """How much its callbacks do."""
        self.die_at_call = -1
        """The disk call, counted from the start, in which the process is killed."""
        self.die_with_power = False
        chance = self.scheduler.stream(f"{name} {number}")
        self.chance = chance
        self.job_s = 10 ** chance.uniform(-4.5, -2.5)
        self.by_calls = chance.random() < 0.5
        self.clock_s = 10 ** chance.uniform(-7.5, -6.0)
        """Mean time that reading a clock takes; much in a process that gets little of its processor."""
        self.loop = ProcessLoop(self.scheduler, f"{name} {number}", self)
        if chance.random() < SLOW:
            self.clock_s = 10 ** chance.uniform(-4.5, -3.0)
            self.loop.callback_s = 10 ** chance.uniform(-4.0, -3.5)
        self.strand = self.loop.strand
        self.world: ProcessWorld
        self._deferred: list[Callable[[], None]] = []
        self._on_end: list[Callable[[], None]] = []
        self._main: asyncio.Task[Any] | None = None
        host.processes[name] = self

    # ---- running

    def start(self, main: Callable[[Process], Coroutine[Any, Any, Any]]) -> None:
        """Begin to run; the process ends with its main coroutine."""
        self.note("process", f"starts as {self.number}")
        self._main = self.loop.create_task(main(self))
        self._main.add_done_callback(self._finished)
        self.loop.wake(self.scheduler.now)

    def enter(self, strand: Strand, run: Callable[[], Any]) -> None:
        """Run something as this process."""
        before, self.strand = self.strand, strand
        outside, self.scheduler.running = self.scheduler.running, self
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop if strand is self.loop.strand else None)
        try:
            run()
        finally:
            asyncio._set_running_loop(loop)
            self.scheduler.running = outside
            self.strand = before

    def check(self) -> None:
        """Raise `Gone` when the process has been killed."""
        if not self.alive:
            raise Gone

    def spend(self, seconds: float) -> None:
        """What runs now waits for so long: others run meanwhile, where it is a job call by call."""
        strand = self.strand
        if isinstance(strand, StoppingStrand):
            strand.stop_for(seconds)
        else:
            strand.now += seconds

    def disk_call(self, seconds: float, size: int = 0) -> None:
        """The process is about to make a call to its disk, which takes so long. Raises `Gone`."""
        self.check()
        if self.strand is self.loop.strand:
            self.work.disk(size)
        self.spend(seconds)
        self.disk_calls += 1
        if self.disk_calls == self.die_at_call:
            if self.die_with_power:
                self.host.power_off(lambda: self.chance.getrandbits(32))
            else:
                self.kill()
            raise Gone

    def when_running(self, when: float, action: Callable[[], None]) -> None:
        """Do something at a time, unless the process is gone then; later if it is paused."""
        self.scheduler.at(when, partial(self._unless_paused, action))

    def _unless_paused(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        if self.paused:
            self._deferred.append(action)
        else:
            action()

    def start_job(self, name: str, work: Callable[[], None], ended: Callable[[], None]) -> None:
        """Run a job in a thread, some time from now."""
        pause = self.chance.expovariate(1 / self.job_s)
        self.when_running(max(self.strand.now, self.scheduler.now) + pause, partial(self._begin_job, name, work, ended))

    def _begin_job(self, name: str, work: Callable[[], None], ended: Callable[[], None]) -> None:
        self.note("job", name)

        def both() -> None:
            work()
            ended()

        if self.by_calls:
            strand = StoppingStrand(self, both)
            self.enter(strand, strand.resume)
            return
        try:
            self.enter(JobStrand(self.scheduler.now), both)
        except Gone:
            return

    # ---- the end

    def on_end(self, told: Callable[[], None]) -> None:
        """Call this once the process has ended, in any way."""
        if self.alive:
            self._on_end.append(told)
        else:
            told()

    def pause(self) -> None:
        """SIGSTOP: nothing of it runs until `resume`; its kernel answers for it."""
        self.paused = True
        self.loop.pause()
        self.note("process", "is paused")

    def resume(self) -> None:
        """SIGCONT."""
        if self.paused and self.alive:
            self.paused = False
            self.note("process", "continues")
            self.loop.resume()
            deferred, self._deferred = self._deferred, []
            for action in deferred:
                self.when_running(self.scheduler.now, action)

    def kill(self) -> None:
        """SIGKILL: its memory is gone, its disk and the kernel's cache stay."""
        if self.alive:
            self.note("process", "is killed")
            self._end()
            for end in list(self.ends):
                end.leave()
            self.disk.process_crash()

    def power_cut(self, seed: int) -> None:
        """Its machine loses its power."""
        if self.alive:
            self._end()
            for end in list(self.ends):
                end.power_off()
        self.disk.power_cut(seed)

    def _finished(self, main: asyncio.Task[Any]) -> None:
        if not self.alive:
            return
        self.error = main.exception() if not main.cancelled() else asyncio.CancelledError()
        self.result = main.result() if self.error is None else None
        self.note("process", "ends" if self.error is None else f"ends: {type(self.error).__name__}: {self.error}"[:500])
        self._end()
        for end in list(self.ends):
            end.leave()
        self.disk.process_crash()

    def _end(self) -> None:
        self.alive = False
        self.loop.close()
        for port in [port for port in self.network.ports.values() if port.process is self]:
            port.close()
        if self.host.processes.get(self.name) is self:
            del self.host.processes[self.name]
        # What runs now is not at a place where it can be taken down.
        self.scheduler.at(self.scheduler.now, self._bury)
        told, self._on_end = self._on_end, []
        for one in told:
            one()

    def _bury(self) -> None:
        """End the jobs and coroutines: whatever they do on the way out meets a world that is gone."""
        for strand in list(self.stopped_jobs):
            self.enter(strand, strand.resume)
        self.enter(self.loop.strand, self._close_tasks)

    def _close_tasks(self) -> None:
        known: set[asyncio.Task[Any]] = set()
        while begun := asyncio.all_tasks(self.loop) - known:  # on their way out they begin others
            known |= begun
            for task in begun:
                self._close_task(task)

    def _close_task(self, task: asyncio.Task[Any]) -> None:
        quiet: Any = task
        quiet._log_destroy_pending = False
        coroutine: Any = task.get_coro()
        try:
            for _ in range(CLOSES):  # not `close`, which forgets an inner one that waits on its way out
                coroutine.throw(Gone)
            coroutine.close()
        except (Gone, StopIteration):
            return
        except Exception as error:  # it fails on its way out: nobody is left to care
            self.last_words = error

    last_words: Exception | None = None
    """What a coroutine of a killed process raised on its way out."""

    # ---- the trace

    def note(self, kind: str, text: str) -> None:
        """A line of the trace."""
        self.scheduler.trace.note(max(self.strand.now, self.scheduler.now), self.name, kind, text)

    def failed(self, message: str, error: BaseException | None) -> None:
        """Something that nobody caught."""
        if self.alive and not isinstance(error, Gone):
            self.faults.append((message, error))
