"""The threads of a simulated process: pools and workers whose jobs run when the scheduler says so.

A job runs in one of two ways, by chance of the process (`Process.by_calls`):

* as a whole: it runs at one moment, and what it reports arrives after the time that its calls to the disk took;
* call by call: it stops at each call to the disk for as long as the call takes, and the event loop, other jobs and
  other processes run meanwhile. It then has a thread of the machine of its own, but only one thread ever runs: each
  gives the turn to the next by hand, in the order of the scheduler.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from proof.simulation.loop import Strand
from proof.simulation.owner import Owner


class Gone(BaseException):
    """The simulated process was killed here. Only the machine catches it."""


class JobStrand(Strand):
    """A job that runs as a whole: its time runs ahead of everybody else's."""

    __slots__ = ()


class StoppingStrand(Strand):
    """A job that stops at each call, in a thread."""

    __slots__ = ("_baton", "_ended", "_main", "_process", "_work")

    def __init__(self, process: Owner, work: Callable[[], None]) -> None:
        super().__init__(process.scheduler.now)
        self._process = process
        self._work = work
        self._baton = threading.Semaphore(0)
        self._main = threading.Semaphore(0)
        self._ended = False
        process.stopped_jobs[self] = None
        THREADS.start(self._run)

    def _run(self) -> None:
        self._baton.acquire()
        try:
            self._process.check()
            self._work()
        except Gone:
            self._process.note("job", "ends with its process")
        except BaseException as error:
            self._process.failed("a job failed", error)
        self._ended = True
        self._process.stopped_jobs.pop(self, None)
        self._main.release()

    def resume(self) -> None:
        """Let the job run to its next stop, or its end. Called by the one thread of the machine."""
        if not self._ended:
            self._baton.release()
            self._main.acquire()

    def stop_for(self, seconds: float) -> None:
        """Called in the thread: let the others run for so long. Raises `Gone`."""
        self.now = max(self.now, self._process.scheduler.now) + seconds
        self.wake()
        self.wait()

    def wake(self) -> None:
        """Resume at the time of this job, or now."""
        process = self._process
        process.when_running(max(self.now, process.scheduler.now), partial(process.enter, self, self.resume))

    def wait(self) -> None:
        """Called in the thread: let the others run until `resume`. Raises `Gone`."""
        self._main.release()
        self._baton.acquire()
        self._process.check()


class _Threads:
    """Threads of the machine, used again and again."""

    def __init__(self) -> None:
        self._idle: list[tuple[threading.Semaphore, list[Callable[[], None]]]] = []
        self.known: set[int] = set()
        """What `threading.get_ident` says in them."""

    def start(self, run: Callable[[], None]) -> None:
        if self._idle:
            begin, work = self._idle.pop()
        else:
            begin, work = threading.Semaphore(0), []
            threading.Thread(target=self._serve, args=(begin, work), daemon=True, name="simulated job").start()
        work.append(run)
        begin.release()

    def _serve(self, begin: threading.Semaphore, work: list[Callable[[], None]]) -> None:
        self.known.add(threading.get_ident())
        while True:
            begin.acquire()
            work.pop()()
            self._idle.append((begin, work))


THREADS = _Threads()


class ProcessPool(Executor):
    """A pool of the world: jobs begin in the order in which they were given, and get ahead of each other."""

    def __init__(self, process: Owner, threads: int, name: str) -> None:
        self._process = process
        self._name = name
        self._free = threads
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._shut = False
        self._ends: list[StoppingStrand] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run something in a thread."""
        self._process.check()
        if self._shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: Future[Any] = Future()
        self._waiting.append((future, partial(fn, *args, **kwargs)))
        self._next()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more jobs, and wait for those that were taken."""
        self._shut = True
        if cancel_futures:
            while self._waiting:
                self._waiting.popleft()[0].cancel()
        strand = self._process.strand
        if not wait:
            return
        if isinstance(strand, StoppingStrand):
            while self._running or self._waiting:
                self._ends.append(strand)
                strand.wait()
        else:
            while self._waiting:
                run(*self._waiting.popleft())

    def _next(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            self._running += 1
            future, work = self._waiting.popleft()
            self._process.start_job(self._name, partial(run, future, work), self._ended)

    def _ended(self) -> None:
        self._free += 1
        self._running -= 1
        self._next()
        if not self._running:
            ends, self._ends = self._ends, []
            for strand in ends:
                strand.wake()


def run(future: Future[Any], work: Callable[[], Any]) -> None:
    """Run a job as a thread of a pool does."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except Gone:
        raise
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)


class ProcessWorker:
    """A thread that runs jobs one after the other: a `bolide.world.contract.Worker`."""

    def __init__(self, process: Owner, name: str) -> None:
        self._process = process
        self._name = name
        self._jobs: deque[Callable[[], object]] = deque()
        self._busy = False
        self._ends: list[StoppingStrand] = []

    def give(self, job: Callable[[], object]) -> None:
        """Run this after what was given before."""
        self._process.check()
        self._jobs.append(job)
        if not self._busy:
            self._begin()

    def stop(self, patience: float | None = None) -> bool:
        """Finish what was given."""
        strand = self._process.strand
        if isinstance(strand, StoppingStrand):
            while self._busy or self._jobs:
                self._ends.append(strand)
                strand.wait()
        else:
            while self._jobs:
                self._jobs.popleft()()
        return True

    def _begin(self) -> None:
        self._busy = True
        self._process.start_job(self._name, self._run, self._ended)

    def _run(self) -> None:
        if self._jobs:  # `stop` may have run it
            self._jobs.popleft()()

    def _ended(self) -> None:
        self._busy = False
        if self._jobs:
            self._begin()
            return
        ends, self._ends = self._ends, []
        for strand in ends:
            strand.wake()
