"""Rows that are a load of the generator for some seconds, and what has to be stored before a pull can be measured."""

from dataclasses import dataclass

from bench.loads.generator import Load, Measurement, Shape, run_load
from bench.loads.subject import Subject
from bench.servers.machine import Watch
from bench.servers.stopping import Failed

_FILL_SHAPE = Shape(8, 32)
_FILL_SECONDS = 600.0
_CHECKED_ANSWERS = 200
_SHARE_TOLERANCE = 0.005


@dataclass(frozen=True)
class Fill:
    """A topic of four queues whose messages lie in the log in turns; with tags, each queue has each of them in turn."""

    topic: str
    body: int
    messages: int
    tags: int = 0

    @property
    def record(self) -> int:
        """About how many bytes a stored message has."""
        return 240 + self.body

    def store(self, subject: Subject) -> None:
        """Send them, once to each broker."""
        if self.topic in subject.filled:
            return
        options = {"tags": self.tags} if self.tags else {}
        load = Load(_FILL_SHAPE, body=self.body, topic=self.topic, options=options)
        count = max(int(self.messages * subject.scale.share), 4000)
        sent = run_load(subject.server.port, load, _FILL_SECONDS, count=count)
        if sent.refused:
            raise Failed(f"{subject.name} refused {sent.refused} of the messages that pulls need: {sent.codes}")
        subject.filled.add(self.topic)


def figures_of(measured: Measurement) -> dict[str, float]:
    """What is kept of a run of the generator."""
    return {
        "rate": measured.rate,
        "mb_per_second": measured.bytes_per_second / 1e6,
        "p50_us": measured.p50_us,
        "p99_us": measured.p99_us,
        "refused": measured.refused,
        "generator": measured.cpu_seconds / measured.seconds if measured.seconds else 0.0,
    }


@dataclass(frozen=True)
class Loaded:
    """A load for some seconds. `expect` is the tag that a filter must let pass, and one message in ten has it."""

    load: Load
    fill: Fill | None = None
    expect: str = ""

    def __call__(self, subject: Subject) -> dict[str, float]:
        """Rate, latency and processor time of a message."""
        self.prepare(subject)
        watch = Watch(subject.server.pid)
        scale = subject.scale
        measured = run_load(subject.server.port, self.load, scale.seconds, skip=scale.skip, count=scale.answers)
        if measured.count == 0:
            raise Failed(f"{subject.name} answered nothing that counts: {measured.codes}")
        return {**figures_of(measured), **watch.end(measured.all_count, measured.cpu_seconds)}

    def prepare(self, subject: Subject) -> None:
        """Store what is pulled, and look into the messages of some pulls: are they what was asked for?"""
        if self.fill is None:
            return
        self.fill.store(subject)
        if self in subject.checked:
            return
        options = {**self.load.options, "body-check": self.fill.body} | ({"expect": self.expect} if self.expect else {})
        look = Load(self.load.shape, self.load.mode, self.load.body, self.load.topic, options=options)
        seen = run_load(subject.server.port, look, _FILL_SECONDS, count=_CHECKED_ANSWERS)
        if seen.wrong or seen.refused or not seen.count:
            raise Failed(
                f"{subject.name} answered pulls with {seen.wrong} of {seen.count} wrong messages: {seen.codes}"
            )
        share = seen.count / seen.scanned
        wanted = 0.1 if self.expect else 1.0
        if abs(share - wanted) > _SHARE_TOLERANCE * (1 if self.expect else 0) + 1e-9:
            raise Failed(f"{subject.name} let {share:.1%} of the messages pass where {wanted:.0%} were expected")
        subject.checked.add(self)

    def ceiling(self, port: int, seconds: float) -> dict[str, float]:
        """The same load on the null server."""
        return figures_of(run_load(port, self.load, seconds, skip=min(seconds / 4, 0.3)))

    @property
    def record(self) -> int:
        """Size of the records that the null server answers a pull with."""
        return self.fill.record if self.fill else 240 + self.load.body

    def __hash__(self) -> int:
        return hash(repr(self))
