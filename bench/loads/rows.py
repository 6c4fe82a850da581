"""The rows of the bench: what is measured on each broker, what of it is compared, and which ratio is the goal."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from bench.loads import crowd, delayed
from bench.loads.client_rows import CASES, ClientCase
from bench.loads.generator import Load, Shape
from bench.loads.loads import Fill, Loaded
from bench.loads.subject import Subject
from bench.servers.stopping import Failed

from proof.kit.small import NEVER_BUSY

Figures = dict[str, float]
Measure = Callable[[Subject], Figures]


@dataclass(frozen=True)
class Compared:
    """A figure of which Bolide's is compared: by how much it is more, or less where `less` is better."""

    figure: str
    unit: str
    goal: float | None = None
    less: bool = False


@dataclass(frozen=True)
class Group:
    """Rows that share their brokers. `sends`: the brokers are warmed with sends, and the disk is synced in between.

    `clients`: what is compared are clients of one Bolide broker, which have a process for each measurement.
    """

    name: str
    flush: str = "async"
    sends: bool = False
    clients: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line of the result. `each` says what a processor time is of."""

    name: str
    group: Group
    measure: Measure
    compared: tuple[Compared, ...]
    each: str = "message"

    @property
    def load(self) -> Loaded | None:
        """The load that the null server can be measured with, too; None where a row is no plain load."""
        return self.measure if isinstance(self.measure, Loaded) else None


# A pull answers 32 messages as shipped, with either broker; both are told to answer what they are asked for.
# No send may be refused because a broker that is not warm is slow.
_LONG_PULLS = {
    **NEVER_BUSY,
    "maxTransferCountOnMessageInMemory": "1024",
    "maxTransferBytesOnMessageInMemory": str(8 << 20),
    "maxTransferCountOnMessageInDisk": "1024",
    "maxTransferBytesOnMessageInDisk": str(8 << 20),
    "enablePropertyFilter": "true",
}
SENDS = Group("sends", sends=True)
SYNC = Group("sends, sync flush", "sync", sends=True)
READS = Group("pulls", settings=_LONG_PULLS)
LARGE = Group("large bodies", sends=True)
DUE = Group("due", settings=_LONG_PULLS)
CROWD = Group("crowd")
CLIENTS = Group("clients", clients=True)

SEND_SHAPES = ("64x1", "8x32", "1x1")
_SEND_GOALS: dict[tuple[str, int], tuple[float | None, ...]] = {
    ("async", 128): (2.5, 4, 2),
    ("async", 1024): (2.2, 3, None),
    ("sync", 128): (2, 2.5, 2.5),
    ("sync", 1024): (None, None, None),
}
_PULL_GOALS = {
    (32, 128): (2, 1.5, 1.5),
    (32, 1024): (1.5, 1.2, 1.2),
    (1024, 128): (1.2, 1, 1),
    (1024, 1024): (1, 0.8, 0.8),
}
_FILTER_GOALS = {("tag", 32, 8): 1.5, ("tag", 1024, 8): 1, ("SQL92", 32, 1): 1.2, ("SQL92", 32, 8): 1}
_SUBSCRIPTIONS = {"tag": ("TAG", "t3"), "SQL92": ("SQL92", "n = 3")}
PLAIN = {128: Fill("pulled128", 128, 200_000), 1024: Fill("pulled1024", 1024, 100_000)}
TAGGED = Fill("tagged", 128, 200_000, tags=10)


def _rate(goal: float | None) -> tuple[Compared, ...]:
    return (Compared("rate", "/s", goal),)


def _sends() -> Iterator[Row]:
    for (flush, body), goals in _SEND_GOALS.items():
        for shape, goal in zip(SEND_SHAPES, goals, strict=True):
            load = Loaded(Load(Shape.parse(shape), body=body))
            yield Row(f"send {shape} {body} B {flush}", SENDS if flush == "async" else SYNC, load, _rate(goal))


def _pulls() -> Iterator[Row]:
    for (count, body), goals in _PULL_GOALS.items():
        for connections, goal in zip((1, 8, 64), goals, strict=True):
            fill = PLAIN[body]
            load = Load(Shape(connections, 1), "pull", body, fill.topic, options={"pull": count})
            name = f"pull {count} of {body} B, {connections} connection{'s' if connections > 1 else ''}"
            yield Row(name, READS, Loaded(load, fill), _rate(goal))


def _filters() -> Iterator[Row]:
    for (kind, count, connections), goal in _FILTER_GOALS.items():
        expression, text = _SUBSCRIPTIONS[kind]
        options = {"pull": count, "expression": expression, "subscription": text}
        load = Load(Shape(connections, 1), "pull", TAGGED.body, TAGGED.topic, options=options)
        name = f"pull {count}, {kind} that passes 10 %, {connections} connection{'s' if connections > 1 else ''}"
        yield Row(name, READS, Loaded(load, TAGGED, expect="t3"), _rate(goal))


def _other_sends() -> Iterator[Row]:
    for batch, goal in ((16, 2.0), (100, 1.5)):
        load = Load(Shape(8, 4), body=100, options={"batch": batch})
        yield Row(f"batches of {batch} x 100 B, 8x4", SENDS, Loaded(load), _rate(goal))
    transaction = Load(Shape(16, 1), "transaction", topic="traded")
    yield Row("transactions, 16 connections", SENDS, Loaded(transaction), _rate(2), each="transaction")
    for shape, body, text in (("4x1", 4_000_000, "4 MB"), ("1x1", 4_000_000, "4 MB"), ("8x8", 32 << 10, "32 KB")):
        yield Row(f"send {shape} {text} async", LARGE, Loaded(Load(Shape.parse(shape), body=body)), _rate(1.3))


def _events() -> Iterator[Row]:
    yield Row("a delay level due together", DUE, delayed.delayed, _rate(1.5))
    timed = (Compared("rate", "/s", 1), Compared("last_ms", "ms to the last", 1, less=True))
    yield Row("timer messages of one second", DUE, delayed.timed, timed)
    latency = (
        Compared("p50_us", "µs, median", 2.2, less=True),
        Compared("p99_us", "µs, 99th percentile", 3.3, less=True),
    )
    yield Row("send to held pull, 100/s", CROWD, crowd.latency, latency)
    connections = (
        Compared("seconds", "s", 8.4, less=True),
        Compared("cpu_seconds", "s of processor time", 14, less=True),
        Compared("kb_each", "KB per connection", 3.9, less=True),
    )
    yield Row("connections with heartbeats", CROWD, crowd.connections, connections, each="connection")
    held = (
        Compared("cpu_percent", "% of a processor", None, less=True),
        Compared("first_ms", "ms to first answer", 1, less=True),
        Compared("last_ms", "ms to last answer", None, less=True),
    )
    yield Row("held pulls that one message wakes", CROWD, crowd.held, held, each="held pull")


def _clients() -> Iterator[Row]:
    for (case, title), goal in zip(CASES.items(), (2.2, 2.0, 2.5), strict=True):
        compared = (Compared("rate", "/s", goal), Compared("cpu_us", "µs of processor time", less=True))
        yield Row(f"client: {title}", CLIENTS, ClientCase(case), compared)


def all_rows() -> list[Row]:
    """Every row, in the order of the result."""
    return [*_sends(), *_pulls(), *_filters(), *_other_sends(), *_events(), *_clients()]


def chosen_rows(only: str) -> list[Row]:
    """The rows whose name contains one of the texts, which are parted by semicolons; `*` and `?` stand for anything."""
    rows = all_rows()
    if not only:
        return rows
    texts = [text.strip() for text in only.split(";") if text.strip()]
    found = [row for row in rows if any(fnmatch(row.name.lower(), f"*{text.lower()}*") for text in texts)]
    lost = [text for text in texts if not any(fnmatch(row.name.lower(), f"*{text.lower()}*") for row in rows)]
    if lost or not found:
        raise Failed(f"no row is called {', '.join(map(repr, lost))}: --list shows them all")
    return found


def groups(rows: Sequence[Row]) -> list[Group]:
    """The groups of rows, in their order."""
    found: list[Group] = []
    for row in rows:
        if row.group not in found:
            found.append(row.group)
    return found
