"""Cost as the work grows: what each size of topics, connections, held pulls, log, timer messages and keys costs Bolide.

Each point has a broker of its own. The page is drawn by `growing_page.py`.
"""

import json
import random
import shutil
import socket
import statistics
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.loads import crowd, delayed
from bench.loads.crowd import Crowd
from bench.loads.generator import Load, Measurement, Shape, run_load
from bench.loads.subject import Scale, Subject
from bench.report.shown import say
from bench.servers.machine import anonymous_mb, exact_seconds
from bench.servers.servers import BolideBroker
from bench.servers.stopping import Failed

from proof.kit.wire import PULL_MESSAGE, QUERY_MESSAGE, SUCCESS, Wire, pull_ext, query_ext
from proof.reader.frames import frame, header
from proof.reader.records import read_records

Figures = dict[str, float]
QUEUES = 8
_CREATE_TOPIC = 17
_IN_FLIGHT = 16
_SEGMENT = 1 << 30
_BLANK = (0xCBD43194).to_bytes(4, "big")
"""Magic of what fills the end of a log file; its size, in front of it, says how much that is."""
_BODY_AT, _SMALL_BODY, _HOLE = 88, 128, 4_000_000
"""Where a record has its body, and the sizes of the bodies of the message that is sent and of those made of it."""
_UNREAD_PULL, _UNREAD_PULLS = 1024, 16
"""Messages of 1 KB that a reader asks for in one pull, and its pulls."""
_SETTLE_SECONDS = 0.5
_QUERIES = 300
_INDEXED_SECONDS = 120.0
_READY_SECONDS = 600.0


@dataclass(frozen=True)
class Figure:
    """One curve."""

    name: str
    title: str
    unit: str


@dataclass(frozen=True)
class Series:
    """What grows, to which sizes, and what is measured at each."""

    name: str
    along: str
    sizes: tuple[float, ...]
    small: tuple[float, ...]
    measure: Callable[[int, Path, float], Figures]
    figures: tuple[Figure, ...]


@contextmanager
def _broker(home: Path, settings: Mapping[str, str] | None = None, *, keep: bool = False) -> Iterator[BolideBroker]:
    """A broker that is killed at the end, and its store removed; `keep` leaves it to the end of the whole run."""
    broker = BolideBroker(home, "async", _READY_SECONDS, settings=settings)
    try:
        yield broker
    finally:
        broker.kill()
        if not keep:
            shutil.rmtree(home, ignore_errors=True)


def _load(broker: BolideBroker, seconds: float, **options: object) -> Measurement:
    load = Load(Shape(8, 32), topic="grown", queues=QUEUES, options=options)
    sent = run_load(broker.port, load, seconds, skip=min(0.3, seconds / 4))
    if sent.refused:
        raise Failed(f"{sent.refused} sends were refused, by code: {sent.codes}")
    return sent


def _sends(broker: BolideBroker, seconds: float, **options: object) -> Figures:
    """Rate, latency and processor time of sends."""
    before = exact_seconds(broker.pid)
    sent = _load(broker, seconds, **options)
    spent = exact_seconds(broker.pid) - before
    return {"send_rate": sent.rate, "send_p99_ms": sent.p99_us / 1000, "send_us": spent / sent.all_count * 1e6}


def _restarts(broker: BolideBroker, home: Path) -> Figures:
    """Seconds from exec to ready, after a clean stop and after a kill; the broker that was given is ended."""
    broker.stop()
    began = time.monotonic()
    second = BolideBroker(home, "async", _READY_SECONDS)
    figures = {"clean_start_s": time.monotonic() - began}
    second.kill()
    began = time.monotonic()
    third = BolideBroker(home, "async", _READY_SECONDS)
    figures["killed_start_s"] = time.monotonic() - began
    third.kill()
    return figures


def _create_topics(port: int, names: Sequence[str]) -> None:
    fields = {"defaultTopic": "TBW102", "readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES), "perm": "6"}
    fields |= {"topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    with Wire(port) as wire:
        for begin in range(0, len(names), _IN_FLIGHT):
            some = names[begin : begin + _IN_FLIGHT]
            wire.socket.sendall(b"".join(frame(header(_CREATE_TOPIC, {**fields, "topic": name})) for name in some))
            for _ in some:
                answer = wire.read()
                if answer is None or answer.code != SUCCESS:
                    raise Failed(f"a topic was not made: {answer}")


def topics(count: int, home: Path, seconds: float) -> Figures:
    """Make so many topics, send to all their queues in turn, start again.

    The measured sends begin when each queue has its file. The store stays until the run ends: ext4 reuses no inode that
    was freed in the last minutes, and looks at each of those before it makes a file, so the files of a point would pay
    for those that were deleted after the point before.
    """
    with _broker(home, keep=True) as broker:
        before = exact_seconds(broker.pid)
        _create_topics(broker.port, [f"grown-{number:05}" for number in range(count)])
        figures = {"create_us": (exact_seconds(broker.pid) - before) / count * 1e6}
        queues = home / "store" / "consumequeue"
        while sum(1 for _ in queues.glob("*/*/*")) < count * QUEUES:
            _load(broker, seconds, topics=count)
        figures |= _sends(broker, seconds, topics=count)
        figures["memory_mb"] = anonymous_mb(broker.pid)
        return figures | _restarts(broker, home)


def connections(count: int, home: Path, seconds: float) -> Figures:
    """Sends beside so many connections that have sent a heartbeat."""
    with _broker(home) as broker, Crowd(broker.port, count, "crowd") as members:
        before = exact_seconds(broker.pid)
        members.run("connect")
        members.run("prepare")
        members.run("heartbeat")
        figures = {"heartbeat_us": (exact_seconds(broker.pid) - before) / count * 1e6}
        members.run(f"rest {seconds / 2}")
        before = exact_seconds(broker.pid)
        members.run(f"rest {seconds}")
        figures["idle_percent"] = (exact_seconds(broker.pid) - before) / seconds * 100
        figures |= _sends(broker, seconds)
        figures["memory_mb"] = anonymous_mb(broker.pid)
        return figures


def held(count: int, home: Path, seconds: float) -> Figures:
    """So many held pulls of one queue, and one message that answers all."""
    with _broker(home) as broker:
        figures = crowd.held(Subject("bolide", broker, Scale(crowd=count, watch=seconds)))
        return {**figures, "memory_mb": anonymous_mb(broker.pid)}


def log(gigabytes: int, home: Path, seconds: float) -> Figures:
    """A log of so many files of 1 GiB: messages of 4 MB whose bodies are holes, which take no room on the disk."""
    _sparse_log(home / "store" / "commitlog", gigabytes, _one_record(home.with_name("record")))
    with _broker(home) as broker:
        figures = _sends(broker, seconds)
        with Wire(broker.port) as wire:
            first = read_records(wire.ask(PULL_MESSAGE, pull_ext("grown", 0, 0)).body)[0].at
        if first < (gigabytes - 1) * _SEGMENT:
            raise Failed(f"the first message stands at {first:,} in the log, not after {gigabytes - 1} GiB")
        pulled = run_load(broker.port, Load(Shape(8, 1), "pull", topic="grown"), seconds)
        figures |= {"pull_rate": pulled.rate, "memory_mb": anonymous_mb(broker.pid)}
        return figures | _restarts(broker, home)


def _sparse_log(folder: Path, gigabytes: int, record: bytes) -> None:
    """The files; the last has one message, and room for what is sent."""
    tail = record[_BODY_AT + _SMALL_BODY :]
    size = _BODY_AT + _HOLE + len(tail)
    head = size.to_bytes(4, "big") + record[4:8] + (zlib.crc32(bytes(_HOLE)) & 0x7FFFFFFF).to_bytes(4, "big")
    folder.mkdir(parents=True)
    number = 0
    for begin in range(0, gigabytes * _SEGMENT, _SEGMENT):
        with (folder / f"{begin:020}").open("wb") as file:
            last, at = begin == (gigabytes - 1) * _SEGMENT, 0
            while at + size + len(_BLANK) + 4 <= _SEGMENT and not (last and at):
                file.seek(at)
                file.write(head + record[12:20] + number.to_bytes(8, "big") + (begin + at).to_bytes(8, "big"))
                file.write(record[36 : _BODY_AT - 4] + _HOLE.to_bytes(4, "big"))
                file.seek(at + _BODY_AT + _HOLE)
                file.write(tail)
                at, number = at + size, number + 1
            if not last:
                file.write((_SEGMENT - at).to_bytes(4, "big") + _BLANK)
            file.truncate(_SEGMENT)


def _one_record(home: Path) -> bytes:
    """A message as the log has it, for queue 0 of the topic `sparse`."""
    with _broker(home) as broker:
        run_load(broker.port, Load(Shape(1, 1), topic="sparse", queues=1), _READY_SECONDS, count=1)
        file = broker.store / "commitlog" / f"{0:020}"
        end = time.monotonic() + _INDEXED_SECONDS
        while (record := _first_record(file)) is None:
            if time.monotonic() > end:
                raise Failed(f"{file} has no message")
    return record


def _first_record(file: Path) -> bytes | None:
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(4), "big")
        opened.seek(0)
        return opened.read(size) if size else None


def timers(count: int, home: Path, seconds: float) -> Figures:
    """So many timer messages due in one second."""
    settings = {"brokerFastFailureEnable": "false", "maxTransferCountOnMessageInMemory": "1024"}
    with _broker(home, settings) as broker:
        figures = delayed.timed(Subject("bolide", broker, Scale(count=count)))
        each = figures["user_us"] + figures["system_us"]
        return {**figures, "each_us": each, "memory_mb": anonymous_mb(broker.pid)}


def unread(count: int, home: Path, seconds: float) -> Figures:
    """So many readers that ask for 16 MB each and read nothing; sends beside them."""
    settings = {name: str(8 << 20) for name in ("maxTransferBytesOnMessageInMemory", "maxTransferBytesOnMessageInDisk")}
    settings |= dict.fromkeys(("maxTransferCountOnMessageInMemory", "maxTransferCountOnMessageInDisk"), "1024")
    with _broker(home, settings) as broker, ExitStack() as readers:
        stored_first = Load(Shape(8, 32), body=1024, topic="read", queues=1)
        run_load(broker.port, stored_first, _INDEXED_SECONDS, count=_UNREAD_PULL)
        ask = frame(header(PULL_MESSAGE, pull_ext("read", 0, 0, _UNREAD_PULL)))
        before = anonymous_mb(broker.pid)
        for _ in range(count):
            wire = readers.enter_context(Wire(broker.port))
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            wire.socket.sendall(ask * _UNREAD_PULLS)
        held_mb, end = anonymous_mb(broker.pid), time.monotonic() + _INDEXED_SECONDS
        while True:  # until what is kept for them grows no more
            time.sleep(_SETTLE_SECONDS)
            grown_mb = anonymous_mb(broker.pid)
            if grown_mb <= held_mb * 1.01:
                break
            if time.monotonic() > end:
                raise Failed(f"the broker's memory still grows: {grown_mb:.0f} MB for {count} readers")
            held_mb = grown_mb
        return {"memory_mb": grown_mb, "each_mb": (grown_mb - before) / count, **_sends(broker, seconds)}


def keys(count: int, home: Path, seconds: float) -> Figures:
    """So many messages with a key each; queries by key."""
    with _broker(home) as broker:
        load = Load(Shape(8, 32), topic="grown", queues=QUEUES)
        sent = run_load(broker.port, load, _INDEXED_SECONDS * 5, count=count)
        if sent.answered < count:
            raise Failed(f"only {sent.answered} of {count} messages were stored")
        choice = random.Random(1)
        with Wire(broker.port) as wire:
            end = time.monotonic() + _INDEXED_SECONDS
            while not _found(wire, count - 1):
                if time.monotonic() > end:
                    raise Failed(f"the last of {count} keys was not found")
            times = []
            for _ in range(_QUERIES):
                key, began = choice.randrange(count), time.perf_counter()
                if not _found(wire, key):
                    raise Failed(f"key {key} of {count} was not found")
                times.append((time.perf_counter() - began) * 1e6)
        ordered = sorted(times)
        figures = {"query_p50_us": statistics.median(ordered), "query_p99_us": ordered[len(ordered) * 99 // 100]}
        figures |= {"send_rate": sent.rate, "memory_mb": anonymous_mb(broker.pid)}
        return figures | _restarts(broker, home)


def _found(wire: Wire, key: int) -> bool:
    name = f"{key:012}"
    answer = wire.ask(QUERY_MESSAGE, query_ext("grown", name))
    return answer.code == SUCCESS and any(one.properties["KEYS"] == name for one in read_records(answer.body))


_SEND_FIGURES = (
    Figure("send_rate", "sends, 8x32", "/s"),
    Figure("send_p99_ms", "sends, 99th percentile", "ms"),
    Figure("send_us", "processor time of a send", "µs"),
)
_MEMORY = Figure("memory_mb", "anonymous memory", "MB")
_STARTS = (Figure("clean_start_s", "start after a stop", "s"), Figure("killed_start_s", "start after a kill", "s"))
SERIES = (
    Series(
        "topics", "topics of 8 queues, sent to in turn", (1, 10, 100, 1000, 10_000), (1, 20), topics,
        (*_SEND_FIGURES, Figure("create_us", "processor time to make one", "µs"), _MEMORY, *_STARTS),
    ),
    Series(
        "connections", "connections with heartbeats", (1, 10, 100, 1000, 5000), (1, 20), connections,
        (*_SEND_FIGURES, Figure("heartbeat_us", "processor time of a connection", "µs"),
         Figure("idle_percent", "processor while all are idle", "%"), _MEMORY),
    ),
    Series(
        "held", "held pulls of one queue", (1, 10, 100, 1000, 5000), (1, 20), held,
        (Figure("first_ms", "first answer after a message", "ms"), Figure("last_ms", "last answer", "ms"),
         Figure("wake_cpu_ms", "processor time of the wake-up", "ms"),
         Figure("cpu_percent", "processor while they are held", "%"), _MEMORY),
    ),
    Series(
        "log", "GiB of log", (1, 3, 10, 30, 100), (1, 3), log,
        (*_SEND_FIGURES, Figure("pull_rate", "pulls of 32, 8 connections", "/s"), _MEMORY, *_STARTS),
    ),
    Series(
        "timers", "timer messages due in one second", (1, 100, 10_000, 100_000, 1_000_000), (1, 100), timers,
        (Figure("rate", "delivered, from the time due", "/s"), Figure("last_ms", "the last after the time due", "ms"),
         Figure("each_us", "processor time of a message", "µs"), _MEMORY),
    ),
    Series(
        "unread", "clients that do not read", (1, 10, 100, 1000), (1, 10), unread,
        (Figure("each_mb", "memory per client", "MB"), _MEMORY, *_SEND_FIGURES),
    ),
    Series(
        "keys", "messages with one key per message", (1000, 10_000, 100_000, 1_000_000), (100, 1000), keys,
        (Figure("query_p50_us", "query by key, median", "µs"), Figure("query_p99_us", "99th percentile", "µs"),
         Figure("send_rate", "sends, 8x32", "/s"), _MEMORY, *_STARTS),
    ),
)  # fmt: skip


def chosen_series(only: str, sizes: str, small: bool) -> list[tuple[Series, tuple[float, ...]]]:
    """The series whose names are given, all if none is, with their sizes: `log=1,10;held=1,100` gives some of them."""
    by_name = {series.name: series for series in SERIES}
    given = {}
    for part in filter(None, sizes.split(";")):
        name, _, numbers = part.strip().partition("=")
        try:
            given[name] = tuple(sorted(int(number) for number in numbers.split(",")))
        except ValueError:
            given[name] = ()
        if name not in by_name or not given[name] or given[name][0] < 1:
            raise Failed(f"--sizes is such as log=1,10;held=1,100 with names of {', '.join(by_name)}, not {part!r}")
    names = [name.strip() for name in only.split(";") if name.strip()] or list(by_name)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise Failed(f"--growth knows {', '.join(by_name)}, not {', '.join(unknown)}")
    whole = [(by_name[name], by_name[name].small if small else by_name[name].sizes) for name in names]
    return [(series, given.get(series.name, its)) for series, its in whole]


def grown(chosen: Iterable[tuple[Series, tuple[float, ...]]], work: Path, seconds: float) -> list[dict[str, Any]]:
    """Every point of every series, as values for a file. A point that fails ends the run with its reason."""
    values = []
    homes: list[Path] = []
    try:
        for series, sizes in chosen:
            points: list[tuple[float, Figures]] = []
            for size in sizes:
                homes.append(work / f"{series.name}-{size:g}")
                figures = series.measure(int(size), homes[-1], seconds)
                points.append((size, figures))
                told = {one.name: round(figures[one.name], 3) for one in series.figures}
                say(f"{size:,g} {series.along}: {json.dumps(told)}")
            figures_told = [vars(one) for one in series.figures]
            values.append({"name": series.name, "along": series.along, "figures": figures_told, "points": points})
    finally:
        for home in homes:
            shutil.rmtree(home, ignore_errors=True)
    return values
