"""Every reader and job of store folders, run as Spark runs it, and judged by an independent reader."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, BooleanType, IntegerType, LongType, StringType, StructField, StructType

from bolide.errors import BolideError
from bolide.layout.shape import StoreShape
from bolide.spark.dispatch.dispatch_job import dispatch_with
from bolide.spark.dispatch.follow import Follower
from bolide.spark.store.log_scan import Stretch
from bolide.spark.store.store_schema import TABLES
from bolide.spark.store.store_source import RocketMQStoreDataSource
from bolide.spark.verify.verify_job import verify_with
from proof.reader.log import files_of
from proof.reader.queues import Unit, read_units
from proof.reader.records import Record
from proof.sequences.checkpointed import KILLS, Found, Query, batch_rows
from proof.sequences.in_process import InProcess
from proof.sequences.steps import Heard, Step, Wrong, hearing
from proof.sequences.store_model import QUEUE_FILE, Store
from proof.sequences.writing import tags_code

JOBS = ("batch", "now", "poll", "verify", "dispatch", "follow")
SCHEMA = StructType(
    [
        StructField("topic", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("queue_offset", LongType()),
        StructField("physical_offset", LongType()),
        StructField("body", BinaryType()),
    ]
)
_RANGE = re.compile(r"left out (\d+) bytes at physical offset (\d+)")
_BODIES = re.compile(r"left out (\d+) messages? whose bod")
Key = tuple[int, str]
"""What tells a record from every other of a sequence: its place and its id."""


def key(row: Record) -> Key:
    """The key of a record."""
    return row.at, row.properties_text.split("\2", 1)[0]


def _units(folder: Path) -> list[Unit]:
    return [one for one in read_units(files_of(folder), past_holes=True) if one.size > 0]


@dataclass
class Reading:
    """A query, and what it owes."""

    query: Query
    skip: bool
    loose: bool = False
    """Whether the next run is allowed to lose: `failOnDataLoss` is false."""
    seen: set[Key] = field(default_factory=set)
    forgiven: set[Key] = field(default_factory=set)
    """What a run left out, and said so."""
    left_out: int = 0
    """Where a batch ended of which a run said that it lacks something: the sink keeps it as it is."""
    judged: set[int] = field(default_factory=set)
    heard: Heard = field(default_factory=Heard)
    """What all runs since the folder was replaced have said."""
    again: bool = False
    """Whether the log was read from its first record again, so that rows may repeat."""


class Runs:
    """The runs over one store."""

    def __init__(self, store: Store, folder: Path, number: int) -> None:
        self._store = store
        self._folder = folder
        self._shape = StoreShape(
            commit_log_segment_size=store.segment, consume_queue_segment_size=QUEUE_FILE, index_enabled=False
        )
        self._skip = number % 3 == 0
        self._most = (0, 0, 1500)[number // 3 % 3]
        self._readings = {name: Reading(Query(self._stream(name)), self._skip) for name in ("now", "poll")}
        self._out = folder / "followed"
        self._following = Query(self._stretches)
        self._replaced = False

    def do(self, step: Step) -> str:
        """One run, and the judgement. Raises Wrong."""
        with hearing() as heard:
            run: Callable[[Step, Heard], str] = getattr(self, f"_{step.name}")
            return run(step, heard)

    def replaced(self) -> None:
        """The folder is another one now."""
        self._replaced = True
        for reading in self._readings.values():
            reading.heard.lines.clear()

    def close(self) -> None:
        """Close what is open."""
        for reading in self._readings.values():
            reading.query.end()

    # -- the batch reader

    def _batch(self, step: Step, heard: Heard) -> str:
        store = self._store
        skip, some, prune = step.pick[0] % 3 == 1, step.pick[1] % 3 == 1, step.pick[2] % 2 == 1
        options = {"path": str(store.root), "splitSize": "4096", "pruneByQueues": str(prune).lower()}
        wanted = store.alive()
        if skip:
            options["corruptRecords"] = "skip"
        if some:
            options["subscribe"] = "orders"
            wanted = [row for row in wanted if row.topic == "orders"]
        if step.pick[3] % 4 == 1:
            options["checkCrc"] = "true"
        since = 0
        if step.pick[4] % 5 == 1:
            since = store.facts.truth[step.one(5, len(store.facts.truth))].stored_ms
            options["startingTimestamp"] = str(since)
        said = "batch read " + " ".join(f"{name}={value}" for name, value in sorted(options.items()) if name != "path")
        rows, error = self._tried(
            lambda: batch_rows(RocketMQStoreDataSource(CaseInsensitiveDict(options)).reader(SCHEMA))
        )
        if error is not None:
            return f"{said}: {self._allowed(error, skip, wanted)}"
        now = store.now(store.facts.truth)
        got = self._checked(rows, now)
        silent = store.silent_tail(now)
        for row in wanted:
            here = now[row.at]
            if row.at in got or row.at in silent:
                continue
            if here is not None and ((some and here.topic != "orders") or here.stored_ms < since):
                continue  # the record in the file does not match the filter any more
            if here is None and since and self._may_be_skipped(row, since):
                continue
            if some and prune and store.facts.hurt & {"queues", "queue orders"} and self._ends_early("orders"):
                continue  # units at the end of a queue that are gone look like its end: documented
            if not (skip and self._told(row, here, heard)):
                raise self._missing(said, row, here)
        return f"{said}: {len(rows)} rows of {len(wanted)}"

    def _may_be_skipped(self, row: Record, since: int) -> bool:
        """Files whose records are older than asked for are not read."""
        return row.stored_ms < since or bool(self._store.facts.hurt)

    def _ends_early(self, topic: str) -> bool:
        """Whether a queue of the topic has fewer units than records."""
        for (name, queue_id), end in self._store.facts.ends.items():
            if name == topic and end:
                held = _units(self._store.root / "consumequeue" / name / str(queue_id))
                if not held or held[-1].number != end - 1:
                    return True
        return False

    # -- streams

    def _stream(self, name: str) -> Callable[[], Any]:
        def reader() -> Any:
            options = {"path": str(self._store.root), "splitSize": "4096", "maxBytesPerTrigger": str(self._most)}
            if self._skip:
                options["corruptRecords"] = "skip"
            if self._readings[name].loose:
                options["failOnDataLoss"] = "false"
            return RocketMQStoreDataSource(CaseInsensitiveDict(options)).streamReader(SCHEMA)

        return reader

    def _now(self, step: Step, heard: Heard) -> str:
        reading = self._readings["now"]
        kill = KILLS[step.one(0, len(KILLS))] if step.pick[0] else ""
        loose = reading.loose = step.pick[1] % 5 == 1
        said = "AvailableNow" + (f", killed when {kill}" if kill else "") + (" failOnDataLoss=false" if loose else "")
        _, error = self._tried(lambda: reading.query.run(kill))
        return f"{said}: {self._streamed(reading, error, heard, bool(kill), said)}"

    def _poll(self, step: Step, heard: Heard) -> str:
        reading = self._readings["poll"]
        if step.pick[0] % 4 == 1:
            reading.query.end()
            reading.loose = step.pick[1] % 3 == 1
        said = "continuous run" + (" failOnDataLoss=false" if reading.loose else "")
        _, error = self._tried(reading.query.poll)
        if error is not None:
            reading.query.end()
        return f"{said}: {self._streamed(reading, error, heard, False, said)}"

    def _streamed(self, reading: Reading, error: BolideError | None, heard: Heard, killed: bool, said: str) -> str:
        store = self._store
        now = store.now(store.facts.truth)
        query = reading.query
        if reading.loose and heard.lines and query.offsets:
            reading.left_out = max(reading.left_out, json.loads(query.offsets[max(query.offsets)])["offset"])
        reading.heard.lines += heard.lines
        heard = reading.heard
        fresh = [number for number in sorted(query.sink) if number not in reading.judged]
        reading.again = reading.again or reading.loose
        rows = [row for number in fresh for row in query.sink[number]]
        got = self._checked(rows, now, once=not reading.again)
        reading.judged.update(fresh)
        found = {key(row) for row in store.facts.truth if row.at in got}
        if not reading.again and (twice := found & reading.seen):
            raise Wrong(f"{said}: {len(twice)} records came twice, the first at {min(twice)[0]}")
        reading.seen |= found
        if error is not None:
            return self._allowed(error, reading.skip, store.alive())
        silent = store.silent_tail(now)
        begin = json.loads(query.offsets[0])["from"] if 0 in query.offsets else 0
        for row in self._durable():
            if row.at < max(begin, reading.left_out) or row.at in silent:
                continue
            if key(row) in reading.seen or key(row) in reading.forgiven:
                continue
            here = now[row.at]
            if (reading.skip and self._told(row, here, heard)) or (reading.loose and heard.lines):
                reading.forgiven.add(key(row))
            elif not killed:
                raise self._missing(said, row, here)
        return f"{len(rows)} rows" + (" before the kill" if killed else "")

    def _durable(self) -> list[Record]:
        """The records that a stream must have read."""
        facts = self._store.facts
        if facts.clean:
            return self._store.alive()
        if "checkpoint" in facts.hurt:
            return []  # only the checkpoint says what is durable while a broker runs
        return [row for row in self._store.alive() if row.stored_ms <= facts.flushed or row.at < facts.confirm]

    # -- jobs

    def _verify(self, step: Step, heard: Heard) -> str:
        store = self._store
        runner: Any = InProcess()
        verdict, error = self._tried(lambda: verify_with(runner, str(store.root), self._shape, 4096, str(self._folder)))
        if error is not None:
            return f"verify: {self._allowed(error, False, [])}"
        now = store.now(store.facts.truth)
        lost = [row for row in store.alive() if now[row.at] is None and row.at not in store.silent_tail(now)]
        if lost and verdict.clean:
            raise Wrong(f"verify finds nothing, and the record at {lost[0].at} is gone")
        if not store.facts.hurt and verdict.count:
            raise Wrong(f"verify has findings in a store that nothing damaged: {verdict.findings[0]}")
        return f"verify: {verdict.count} findings"

    def _dispatch(self, step: Step, heard: Heard) -> str:
        store, skip = self._store, step.pick[0] % 2 == 1
        out = self._folder / "dispatched"
        shutil.rmtree(out, ignore_errors=True)
        runner: Any = InProcess()
        said = "dispatch" + (" --skip-corrupt" if skip else "")
        report, error = self._tried(lambda: dispatch_with(runner, str(store.root), self._shape, str(out), skip, 4096))
        if error is not None:
            return f"{said}: {self._allowed(error, skip, [])}"
        now = store.now(store.facts.truth)
        told = [(bad.physical_offset, bad.size) for bad in report.bad]
        told += [(one.physical_offset, 1) for one in report.skipped]
        self._dispatched(out, store.alive(), now, told if skip else told[len(report.bad) :], said)
        return f"{said}: {report.units} units"

    def _stretches(self) -> Any:
        options = {"path": str(self._store.root), "table": "stretches", "startingOffsets": "earliest"}
        kinds = {"string": StringType(), "bigint": LongType(), "boolean": BooleanType()}
        fields = [StructField(name, kinds[kind]) for name, kind in TABLES["stretches"].items()]
        source = RocketMQStoreDataSource(CaseInsensitiveDict(options))
        return source.streamReader(StructType(fields))

    def _follow_once(self, kill: str) -> Any:
        follower = Follower(str(self._store.root), str(self._out), self._shape)
        if follower.state.end_offset < 0:
            self._following = Query(self._stretches)
        made: list[Any] = []

        def write(_: int, rows: Iterable[Found]) -> None:
            parts = sorted((Stretch(**row) for row in rows), key=lambda part: part.start + part.begin)
            runner: Any = InProcess()
            made.append(follower.apply(parts, runner))

        self._following.write = write
        self._following.run(kill)
        return [one for one in made if one is not None]

    def _follow(self, step: Step, heard: Heard) -> str:
        kill = KILLS[step.one(0, len(KILLS))]
        said = "dispatch --update" + (f", killed when {kill}" if kill else "")
        done, error = self._tried(lambda: self._follow_once(kill))
        if error is not None:
            return f"{said}: {self._allowed(error, False, [])}"
        facts = self._store.facts
        if not kill and not facts.deleted:
            now = self._store.now(facts.truth)
            self._dispatched(self._out, self._durable(), now, [], said)
        return f"{said}: {sum(one.records for one in done)} records"

    def _dispatched(
        self, out: Path, wanted: list[Record], now: dict[int, Record | None], told: list[tuple[int, int]], said: str
    ) -> None:
        """Raise Wrong unless the queue files in a folder have a unit for each of these records, or a word."""
        silent = self._store.silent_tail(now)
        held: dict[tuple[str, int], dict[int, int]] = {}
        for row in wanted:
            here = now[row.at]
            if row.at in silent or not row.queued or any(at < row.at + row.size and row.at < at + n for at, n in told):
                continue
            queue = (row.topic, row.queue_id) if here is None else (here.topic, here.queue_id)
            if queue not in held:
                folder = out / "consumequeue" / queue[0] / str(queue[1])
                held[queue] = {one.at: one.code for one in _units(folder)}
            if here is None and row.at not in held[queue]:  # else it was dispatched before it was damaged
                raise self._missing(said, row, here)
            if here == row and held[queue].get(row.at) != tags_code(row):
                raise Wrong(f"{said}: {row.topic}:{row.queue_id} has no right unit for the record at {row.at}")

    # -- the judgement

    def _tried(self, run: Callable[[], Any]) -> tuple[Any, BolideError | None]:
        try:
            return run(), None
        except BolideError as error:
            return [], error
        except Exception as error:
            raise Wrong(f"a run crashed with {type(error).__name__}: {error}") from error

    def _allowed(self, error: BolideError, skip: bool, wanted: list[Record]) -> str:
        """The error in short, if a run may end with it."""
        text = f"{type(error).__name__}: {error}"
        names = (str(self._store.root), "offset", "deleted-topics", str(self._out))
        if not any(name in text for name in names):
            raise Wrong(f"an error that names no place: {text}")
        facts = self._store.facts
        bad = any(row.sent_body is None for row in wanted)
        if not (facts.hurt or self._replaced or bad or "deleted the file" in text):
            raise Wrong(f"an error without a reason: {text}")
        if skip and type(error).__name__ in ("CorruptStore", "BadBody"):
            raise Wrong(f"damage is to be skipped, and it stops the run: {text}")
        return text.replace(str(self._store.root), "STORE")[:160]

    def _checked(self, rows: list[Found], now: dict[int, Record | None], once: bool = True) -> set[int]:
        """The places of these rows, each as the reader finds it."""
        got: set[int] = set()
        for row in rows:
            at = row["physical_offset"]
            if at in got and once:
                raise Wrong(f"the record at {at} came twice")
            got.add(at)
            here = now.get(at)
            if here is not None and (here.sent_body, here.queue_offset) != (row["body"], row["queue_offset"]):
                raise Wrong(f"the record at {at} came as another: {row}")
        return got

    def _told(self, row: Record, here: Record | None, heard: Heard) -> bool:
        """Whether the run said that it left this record out."""
        for line in heard.lines:
            for size, at in _RANGE.findall(line):
                if int(at) < row.at + row.size and row.at < int(at) + int(size):
                    return True
            if here is not None and here.sent_body is None and _BODIES.search(line):
                return True
        return False

    def _missing(self, said: str, row: Record, here: Record | None) -> Wrong:
        state = "is gone from the log" if here is None else "is in the log"
        return Wrong(f"{said}: no error, and without {row.topic[:20]}:{row.queue_id} offset {row.queue_offset} at "
                     f"physical offset {row.at}, which {state}")  # fmt: skip
