"""The scrub: reads everything on disk, pass after pass, and reports damage.

Bytes rot on disks that are rarely read. A pass reads the log in windows. For each it checks the CRC and the lengths of
the records, then the units and the index entries that the records must have. Only sealed bytes are read, which
are synced, dispatched and no longer written (`Sealed`).

The state machine is on the event loop: `due`, `job` and `done`. The jobs read in the pool, and close each file. A
file may be deleted and the log truncated during a job, so the loop drops the results that no longer apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final
from zlib import crc32

from msgspec import Struct

from bolide.layout.record import MIN_RECORD_SIZE
from bolide.store.disk.files import FileFailed
from bolide.store.message_store import MessageStore
from bolide.store.options import ScrubOptions
from bolide.store.scrub.finding import Damage, place_in_log
from bolide.store.scrub.finding_table import FindingTable
from bolide.store.scrub.pace import ScrubPace
from bolide.store.scrub.paced_reader import Gone, PacedReader
from bolide.store.scrub.state import NAME, ScrubState, decode_state, encode_state
from bolide.store.scrub.window_work import Reached, WindowWork

FIRST_MS: Final = 60_000
"""Time from the start of the broker to the first read: a start has other work."""
LOOK_MS: Final = 60_000
"""Time after which a scrub without work, or with a failed read, checks the store."""
SAVE_MS: Final = 30_000
"""Minimum time between two writes of the position. After a kill, the scrub repeats the windows since the last one."""
SAME_AGAIN_MS: Final = 3_600_000
"""Interval at which a lasting problem is reported."""
JOB_BYTES: Final = 256 * 1024
JOB_SECONDS: Final = 0.02


class Phase(StrEnum):
    """The state of the scrub."""

    WAITING = "waiting"
    """The broker has just started, or the store has nothing to check."""
    RUNNING = "running"
    RESTING = "resting"
    """The pass is complete, and the next one is not due."""
    PAUSED = "paused"
    """scrubEnable is false."""
    STOPPED = "stopped"
    """The store has failed, and the broker stops."""


class ScrubStatus(Struct, frozen=True):
    """Progress and findings, for metrics and operators. Times are ms since the epoch by the wall clock, 0: never."""

    phase: Phase
    passes: int
    """Number of complete passes."""
    began: int
    finished: int
    """End of the last complete pass."""
    done: int
    """Bytes of the log that the current pass has checked."""
    total: int
    """Bytes of the log that the current pass checks."""
    bytes_read: int
    """Bytes read from files since the broker started."""
    records: int
    """Number of records checked since the broker started."""
    units: int
    """Number of queue units compared with their records since the broker started."""
    entries: int
    """Number of index entries compared with their records since the broker started."""
    findings: list[Damage]
    unlisted: int
    """Number of further findings that are not in the list."""


class ScrubJob:
    """One step in the pool."""

    name = "scrub the store"

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work

    def run(self) -> None:
        """Run the step."""
        self._work()


class Scrub:
    """The scrub of one store. `retention_ms`: age at which log files are deleted. `monotonic` returns seconds, to
    measure the work in the pool."""

    def __init__(
        self, store: MessageStore, options: ScrubOptions, retention_ms: int, monotonic: Callable[[], float], now: int
    ) -> None:
        self._bytes_read = 0
        self._checked = (0, 0, 0)
        """Numbers of records, units and index entries."""
        self._store = store
        self._options = options
        self._monotonic = monotonic
        self._path = f"{store.root}/{NAME}"
        self._reader = PacedReader(store.files, monotonic)
        self._pace = ScrubPace(options, retention_ms)
        self._state = ScrubState()
        self._findings = FindingTable(store)
        self._loaded = False
        self._next = now
        self._first = now + FIRST_MS
        self._began = now
        """Start of the current pass, by the clock that never jumps."""
        self._begin_now = False
        self._job: ScrubJob | None = None
        self._started = 0
        self._busy = 0.0
        """Seconds of the last job."""
        self._failure = ""
        """Reason why the last job could not read, or ""."""
        self._saved: bytes = b""
        self._save_at = 0
        self._news: list[str] = []
        self._from_pool: list[str] = []
        """News of the running job, for `done`."""
        self._problem = ""
        self._problem_at = now
        self._work: WindowWork | None = None
        self._steps: Iterator[None] | None = None
        self._reached = Reached()
        store.closing.append(self._close)

    # -- on the loop --

    def configure(self, options: ScrubOptions, retention_ms: int, now: int) -> None:
        """Apply changed settings. A scrub that is enabled again continues now, or starts a pass after a complete
        one."""
        if options.scrub_enable and not self._options.scrub_enable:
            self._next = now
            self._begin_now = not self._state.running
        elif self._phase() is Phase.RESTING:
            self._next = max(now, self._began + options.scrub_interval)
        self._options = options
        self._pace.configure(options, retention_ms)

    def due(self, now: int) -> int | None:
        """Return when to call `job`, or None if there is nothing to do until `done` or `configure`."""
        paused = self._loaded and not self._options.scrub_enable
        return None if paused or self._job is not None or self._store.failure else self._next

    def job(self, now: int) -> ScrubJob | None:
        """Return the next job if it is due. The caller runs it in the pool, and then calls `done`."""
        due = self.due(now)
        if due is None or now < due:
            return None
        if not self._loaded:
            self._job = ScrubJob(self._load)
            return self._job
        while self._steps is None:
            if not self._advance(now):
                return None
        self._started = now
        self._job = ScrubJob(self._run)
        return self._job

    def done(self, job: object, error: str, now: int) -> None:
        """Process a finished job. `error` is "" on success."""
        if job is not self._job:
            return
        self._job = None
        for problem in self._from_pool:
            self._tell_problem(problem, now)
        self._from_pool = []
        reader = self._reader
        cost, waited, reader.cost, reader.waited = reader.cost, reader.waited, 0, 0.0
        busy, self._busy = max(self._busy - waited, 0.0), 0.0
        error, self._failure = error or self._failure, ""
        if error:
            self._drop_work()
            self._next = now + LOOK_MS
            self._tell_problem(f"cannot read the store, tries again in a minute: {error}", now)
            return
        if not self._loaded:
            self._start(now)
            return
        self._bytes_read += cost
        left = max(self._state.target - self._state.position, 0)
        self._next = max(now, self._started + self._pace.pause(cost, busy, left, now - self._began))
        if self._work is not None and not self._work.valid:
            self._drop_work()

    def take_news(self) -> list[str]:
        """Return a sentence for each finding that is new since the last call, and for each problem."""
        taken, self._news = self._news, []
        return taken

    def status(self) -> ScrubStatus:
        """Return progress and findings. Any thread may call this."""
        state = self._state
        return ScrubStatus(
            self._phase(),
            state.passes,
            state.began,
            state.finished,
            max(state.position - state.begin, 0),
            max(state.target - state.begin, 0),
            self._bytes_read,
            *self._checked,
            self._findings.current(),
            self._findings.unlisted,
        )

    def _phase(self) -> Phase:
        state = self._state
        if self._store.failure:
            return Phase.STOPPED
        if not self._options.scrub_enable:
            return Phase.PAUSED
        if not self._loaded or not state.began:
            return Phase.WAITING
        return Phase.RUNNING if state.running else Phase.RESTING

    def _tell_problem(self, problem: str, now: int) -> None:
        if problem != self._problem or now - self._problem_at >= SAME_AGAIN_MS:
            self._problem, self._problem_at = problem, now
            self._news.append(problem)

    # -- in the pool --

    def _run(self) -> None:
        """Continue the current scan until this job has done enough."""
        steps, reader = self._steps, self._reader
        started = self._monotonic()
        try:
            for _ in steps or ():
                self._busy = self._monotonic() - started
                if reader.cost >= JOB_BYTES or self._busy - reader.waited >= JOB_SECONDS:
                    return
        except FileFailed as error:  # not raised, because the pool would log each attempt
            self._failure = str(error)
        self._busy = self._monotonic() - started
        self._steps = None

    def _load(self) -> None:
        """Read the saved state."""
        data = self._store.files.read_file(self._path)
        if data is None:
            return
        state = decode_state(data)
        if state is None:
            self._from_pool.append(f"{self._path} is damaged: starting at the first record of the log")
        elif state.anchor >= 0 and self._anchor_crc(state.anchor) != state.anchor_crc:
            self._from_pool.append(f"{self._path} is not of this log: starting at its first record")
        else:
            self._state = state

    def _anchor_crc(self, offset: int) -> int:
        """Return the checksum of the header at an offset of the log, or -1 if the log does not have it."""
        path, position = place_in_log(offset, self._store.shape.commit_log_segment_size)
        try:
            return crc32(self._reader.read(f"{self._store.root}/{path}", MIN_RECORD_SIZE, position))
        except Gone:
            return -1

    # -- passes --

    def _start(self, now: int) -> None:
        """Continue the saved pass, as far as the log has its position."""
        store, state = self._store, self._state
        end = int(store.end_offset)
        if max(state.position, state.target) > end:
            self._news.append(f"{self._path} is ahead of the log, which ends at {end}: starting at its first record")
            self._state = state = ScrubState()
        self._loaded = True
        wall = int(store.times.wall(now))
        # If the clock was set back, the next pass would be late by the difference.
        state.began = min(state.began, wall)
        self._began = now - (wall - state.began) if state.began else now
        self._next = max(now, self._first)
        self._findings.load(state.findings, state.unlisted)
        for found in self._findings.current():
            self._news.append(f"damage found before the restart: {found}")

    def _advance(self, now: int) -> bool:
        """Prepare the next scan. Return False if no scan is due."""
        work = self._work
        if work is None:
            return self._plan(now)
        if not work.valid:
            self._drop_work()
            return True
        self._steps = work.next_scan()
        if self._steps is None:
            self._commit(work, now)
        return True

    def _plan(self, now: int) -> bool:
        """End a pass, or start the next window, and the next pass if it is due. Return False if no work is due."""
        store, state = self._store, self._state
        first, sealed = int(store.log.segments.min_offset), int(store.maintenance.sealed.offset)
        state.position = max(state.position, first)
        state.target = min(state.target, int(store.end_offset))
        if state.running and state.position >= state.target:
            # All of it is checked, deleted by retention, or truncated.
            state.running = False
            state.passes += 1
            state.finished = int(store.times.wall(now))
            self._begin_save(now)
            return True
        if not state.running:
            due = self._began + self._options.scrub_interval
            if state.began and not self._begin_now and now < due:
                self._next = due
                return False
            if sealed <= first:
                self._next = now + LOOK_MS
                return False
            self._begin_pass(now, first, sealed)
        limit = min(state.target, sealed)
        if state.position >= limit:
            self._next = now + LOOK_MS  # before the first flush after a start, or after a truncation
            return False
        self._work = WindowWork(store, self._reader, self._reached, state.position, limit)
        return True

    def _begin_pass(self, now: int, first: int, sealed: int) -> None:
        state = self._state
        state.running = True
        self._begin_now = False
        self._began = now
        self._reached = Reached(since_begin=True)
        self._pace.began()
        state.began = int(self._store.times.wall(now))
        state.begin = state.position = first
        state.target = sealed
        self._findings.unlisted = 0

    def _drop_work(self) -> None:
        """Drop the current window, because the log was truncated, its start was deleted, or a read failed. The window
        is repeated."""
        self._work = self._steps = None
        self._reached = Reached()
        state = self._state
        state.position = min(state.position, int(self._store.maintenance.sealed.offset))
        state.begin = min(state.begin, state.position)

    def _commit(self, work: WindowWork, now: int) -> None:
        """Add the findings of a window, move past it, and save the state now and then."""
        state, window = self._state, work.window
        self._work = None
        for one in self._findings.replace(window.start, window.stop, window.verdict()):
            self._news.append(f"damage: {one}")
        records, units, entries = self._checked
        self._checked = records + len(window.sizes), units + window.units, entries + window.entries
        self._pace.checked(window.stop - window.start)
        state.position = window.stop
        if window.anchor[0] >= 0:
            state.anchor, state.anchor_crc = window.anchor
        if now >= self._save_at:
            self._begin_save(now)

    # -- the file --

    def _begin_save(self, now: int) -> None:
        self._save_at = now + SAVE_MS
        self._steps = self._save(self._encoded())

    def _encoded(self) -> bytes:
        state = self._state
        state.findings, state.unlisted = self._findings.current(), self._findings.unlisted
        return encode_state(state)

    def _save(self, data: bytes) -> Iterator[None]:
        """Write the state, in the pool. If that fails, the next start repeats a part of the pass."""
        try:
            self._store.files.write_file(self._path, data)
            self._saved = data
        except FileFailed as error:
            self._from_pool.append(f"cannot save the position: {error}")
        yield

    def _close(self, now: int) -> None:
        """Save the state when the store closes."""
        data = self._encoded()
        if self._loaded and data != self._saved and not self._store.failure:
            for _ in self._save(data):
                pass
