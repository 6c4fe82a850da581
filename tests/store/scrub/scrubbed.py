"""A small store and its scrub, without threads: the test runs the jobs and sets the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

from bolide.layout.queue_unit import UNIT_SIZE
from bolide.store.disk.files import FileFailed
from bolide.store.options import ScrubOptions
from bolide.store.scrub.finding import Damage
from bolide.store.scrub.scrub import Phase, Scrub
from tests.store.scenario import ROOT, SHAPE, Machine, Sent

MINUTE = 60_000
WEEK = 7 * 86_400_000
YEAR = 52 * WEEK
SEGMENT = SHAPE.commit_log_segment_size


@dataclass
class Scrubbed:
    """A machine with a scrub. `now` of the machine is the clock of both."""

    machine: Machine = field(default_factory=Machine)
    options: ScrubOptions = field(default_factory=ScrubOptions)
    seconds: float = 0.0
    """The clock that measures the work in the pool."""
    per_call: float = 0.0
    """Time that passes on this clock with each call."""
    news: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.scrub = Scrub(self.machine.store, self.options, YEAR, self.monotonic, self.machine.now)

    def monotonic(self) -> float:
        """Return the time on the clock of the pool."""
        self.seconds += self.per_call
        return self.seconds

    def seal(self) -> None:
        """Flush queues and index, sync them, and move the checkpoint."""
        for _ in range(3):
            self.machine.tick(MINUTE + 1000)

    def step(self) -> bool:
        """Let time pass until the scrub is due, and run one job. Return False if it waits for a minute or more."""
        scrub, machine = self.scrub, self.machine
        due = scrub.due(machine.now)
        if due is None or due - machine.now >= MINUTE:
            return False
        machine.now = max(machine.now, due)
        job = scrub.job(machine.now)
        if job is None:
            return True
        try:
            job.run()
        except FileFailed as error:
            scrub.done(job, str(error), machine.now)
        else:
            scrub.done(job, "", machine.now)
        return True

    def one_pass(self) -> list[Damage]:
        """Run the jobs of one whole pass, and return the findings."""
        passes = self.scrub.status().passes
        for _ in range(100_000):
            if self.scrub.status().passes > passes and self.scrub.status().phase is Phase.RESTING:
                break
            due = self.scrub.due(self.machine.now)
            assert due is not None
            self.machine.now = max(self.machine.now, due)
            self.step()
        while self.step():  # the write of the position
            pass
        self.news += self.scrub.take_news()
        return self.scrub.status().findings

    def restart(self) -> None:
        """Stop store and scrub, and start both."""
        self.machine.restart()
        self._begin()

    def crash(self) -> None:
        """Kill the process and start again."""
        self.machine.crash()
        self._begin()

    def overwrite(self, path: str, position: int, data: bytes) -> None:
        """Damage a file of the store."""
        handle = self.machine.files.open(f"{ROOT}/{path}")
        self.machine.files.write_at(handle, [data], position)
        self.machine.files.close(handle)

    def content(self, path: str) -> bytes:
        """Return the bytes of a file of the store."""
        data = self.machine.files.read_file(f"{ROOT}/{path}")
        assert data is not None, path
        return data


def filled(messages: int = 100) -> Scrubbed:
    """A store of several log files whose records are all sealed."""
    scrubbed = Scrubbed()
    for _ in range(messages // 5):
        scrubbed.machine.turn(5)
    scrubbed.seal()
    return scrubbed


def log_place(offset: int) -> tuple[str, int]:
    """Return the file of a physical offset, and the position in it."""
    start = offset - offset % SEGMENT
    return f"commitlog/{start:020}", offset - start


def unit_place(sent: Sent) -> tuple[str, int]:
    """Return the file of a message's unit, and the position in it."""
    position = int(sent.at.queue_offset) * UNIT_SIZE
    start = position - position % SHAPE.consume_queue_segment_size
    return f"consumequeue/T/{sent.put.queue_id}/{start:020}", position - start


def flip(scrubbed: Scrubbed, path: str, position: int, bit: int = 0) -> None:
    """Flip one bit of a file of the store."""
    (byte,) = scrubbed.content(path)[position : position + 1]
    scrubbed.overwrite(path, position, bytes([byte ^ (1 << bit)]))


def only(findings: list[Damage]) -> Damage:
    """Return the one finding."""
    assert len(findings) == 1, [str(one) for one in findings]
    return findings[0]
