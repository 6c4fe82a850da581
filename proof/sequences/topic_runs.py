"""Every reader and job of a topic, run as Spark runs it, and judged by an independent reader of the logs."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from bolide.errors import BolideError
from bolide.spark.data_source import RocketMQDataSource
from bolide.spark.jobs.archive import where_live_begins
from bolide.spark.sink.messages import Task
from bolide.spark.sink.sink_options import sink_options
from bolide.spark.sink.writer import StreamWriter
from bolide.spark.source.stream_offset import read_offset
from proof.reader.records import Record
from proof.sequences.brokers import Brokers
from proof.sequences.checkpointed import KILLS, Found, Killed, Query, batch_rows
from proof.sequences.steps import Heard, Step, Wrong, hearing

JOBS = ("batch", "now", "poll", "mirror", "read_back")
SCHEMA = StructType(
    [
        StructField("broker", StringType()),
        StructField("queue_id", IntegerType()),
        StructField("queue_offset", LongType()),
        StructField("offset_message_id", StringType()),
        StructField("body", BinaryType()),
    ]
)
DISCOVERED_S = 15.0
"""How long a continuous run may take to find a queue; it asks the name server ten times a second."""
_BODIES = re.compile(r"left out (\d+) messages? whose bod")
Key = tuple[str, int, str]
"""What tells a message from every other of a sequence: its broker, its place in the log, its id."""


def key(broker: str, row: Record) -> Key:
    """The key of a message."""
    return broker, row.at, row.properties_text.split("\2", 1)[0]


@dataclass
class Reading:
    """A query, and what it owes."""

    query: Query
    options: dict[str, str]
    seen: set[Key] = field(default_factory=set)
    forgiven: set[Key] = field(default_factory=set)
    """What a run left out, and said so."""
    owed: dict[Key, str] = field(default_factory=dict)
    """Messages that were destroyed before the query had read them: it must say so, once. With their queue."""
    judged: set[int] = field(default_factory=set)
    heard: Heard = field(default_factory=Heard)
    """What all its runs have said."""
    again: bool = False
    loose: bool = False


class TopicRuns:
    """The runs over one topic."""

    last: tuple[str, ...] = ("batch", "now")
    """What a sequence ends with; the first needs a topic."""

    def __init__(self, brokers: Brokers, topic: str, folder: Path, number: int) -> None:
        self._brokers = brokers
        self._topic = topic
        self._folder = folder
        bodies = ("fail", "drop", "column")[number % 3]
        self._bodies = bodies
        options = {
            "namesrv": brokers.address, "subscribe": topic, "startingOffsets": "earliest", "badRecords": bodies,
            "discoveryIntervalMs": "100", "requestTimeoutMs": "30000", "retryTimeoutMs": "0",
        }  # fmt: skip
        self._options = options
        most = {"maxOffsetsPerTrigger": str((7, 11, 40)[number // 3 % 3])}
        self._readings = {name: self._reading(name, options | most) for name in ("now", "poll", "mirror")}
        self._copy = f"{topic}-copy"
        self._written = 0
        self.disturbed = False
        """Whether an operator did anything that may cost a reader messages."""

    def _reading(self, name: str, options: dict[str, str]) -> Reading:
        def reader() -> Any:
            reading = self._readings[name]
            given = reading.options | ({"failOnDataLoss": "false"} if reading.loose else {})
            return RocketMQDataSource(CaseInsensitiveDict(given)).streamReader(SCHEMA)

        return Reading(Query(reader), options)

    def do(self, step: Step) -> str:
        """One run, and the judgement. Raises Wrong."""
        with hearing() as heard:
            run: Callable[[Step, Heard], str] = getattr(self, f"_{step.name}")
            return run(step, heard)

    def close(self) -> None:
        """Close what is open."""
        for reading in self._readings.values():
            reading.query.end()

    def owes(self) -> None:
        """What exists now is about to be destroyed: queries that know its queues must not end as if it had not been."""
        for reading in self._readings.values():
            for broker, row in self._truth():
                place = self._place(broker, row)
                if key(broker, row) not in reading.seen and self._knows(reading, broker, row.queue_id):
                    reading.owed[key(broker, row)] = place

    def _knows(self, reading: Reading, broker: str, queue_id: int) -> bool:
        """Whether the query has read from a queue: the checkpoint then names its last message."""
        planned = reading.query.offsets  # a batch that was planned is what the next run begins with
        reached = json.loads(planned[max(planned)]) if planned else {}
        queues = reached.get("queues", {}).get(self._topic, {}).get(broker, {})
        return bool(queues.get(str(queue_id), 0))

    # -- the batch reader

    def _batch(self, step: Step, heard: Heard) -> str:
        options = dict(self._options)
        tags = "A" if step.pick[0] % 4 == 1 else ""
        if tags:
            options["tags"] = tags
        if step.pick[1] % 2:
            options["maxRecordsPerPartition"] = str(1 + step.one(2, 9))
        if step.pick[3] % 3 == 1:
            options["pullBatchSize"], options["pullsInFlight"] = str(1 + step.one(4, 4)), str(1 + step.one(5, 3))
        said = "batch read" + (f" tags={tags}" if tags else "")
        rows, error = self._tried(lambda: batch_rows(RocketMQDataSource(CaseInsensitiveDict(options)).reader(SCHEMA)))
        wanted = [(broker, row) for broker, row in self._truth() if not tags or row.properties.get("TAGS") == tags]
        if error is not None:
            return f"{said}: {self._allowed(error, wanted, False)}"
        got = self._checked(rows, wanted, once=True)
        for broker, row in wanted:
            if key(broker, row) not in got and not self._dropped(row, heard):
                raise self._missing(said, broker, row)
        return f"{said}: {len(rows)} rows of {len(wanted)}"

    # -- streams

    def _now(self, step: Step, heard: Heard) -> str:
        reading = self._readings["now"]
        kill = KILLS[step.one(0, len(KILLS))] if step.pick[0] else ""
        reading.loose = step.pick[1] % 5 == 1
        said = "AvailableNow" + (f", killed when {kill}" if kill else "")
        said += " failOnDataLoss=false" if reading.loose else ""
        _, error = self._tried(lambda: reading.query.run(kill))
        return f"{said}: {self._streamed(reading, error, heard, bool(kill), said)}"

    def _poll(self, step: Step, heard: Heard) -> str:
        reading = self._readings["poll"]
        if step.pick[0] % 4 == 1:
            reading.query.end()
            reading.loose = step.pick[1] % 3 == 1
        said = "continuous run" + (" failOnDataLoss=false" if reading.loose else "")
        until = time.monotonic() + DISCOVERED_S
        while True:
            _, error = self._tried(reading.query.poll)
            if error is not None:
                reading.query.end()
            try:
                return f"{said}: {self._streamed(reading, error, heard, False, said)}"
            except Wrong:
                if error is not None or time.monotonic() > until:
                    raise
            time.sleep(0.1)

    def _streamed(self, reading: Reading, error: BolideError | None, heard: Heard, killed: bool, said: str) -> str:
        query, wanted = reading.query, self._truth()
        fresh = [number for number in sorted(query.sink) if number not in reading.judged]
        reading.again = reading.again or reading.loose
        rows = [row for number in fresh for row in query.sink[number]]
        got = self._checked(rows, wanted, once=not reading.again)
        if not reading.again and (twice := got & reading.seen):
            raise Wrong(f"{said}: {len(twice)} messages came twice, the first at {min(twice)}")
        reading.judged.update(fresh)
        reading.seen |= got
        if error is not None:
            if self._is_loss(error):
                reading.owed.clear()  # it said so
            return self._allowed(error, wanted, True)
        reading.heard.lines += heard.lines
        reading.owed = {at: place for at, place in reading.owed.items() if not heard.says(place)}
        if killed:
            if reading.loose:  # a later run need not say it again
                reading.forgiven |= {key(broker, row) for broker, row in wanted if heard.says(self._place(broker, row))}
            return f"{len(rows)} rows before the kill"
        for at, place in reading.owed.items():
            if at not in reading.seen:
                raise Wrong(f"{said}: no error and no word, and {place} had unread messages when it was destroyed")
        for broker, row in wanted + self._away(reading):
            here = key(broker, row)
            if here in reading.seen or here in reading.forgiven:
                continue
            place = self._place(broker, row)
            if self._dropped(row, reading.heard) or (heard.says(place) and (reading.loose or not self._is_up(broker))):
                reading.forgiven.add(here) if self._is_up(broker) else None
            else:
                raise self._missing(said, broker, row)
        return f"{len(rows)} rows"

    def _place(self, broker: str, row: Record) -> str:
        return f"{self._topic}@{broker}:{row.queue_id}"

    def _is_up(self, broker: str) -> bool:
        return any(server.name == broker for server in self._brokers.up)

    def _away(self, reading: Reading) -> list[tuple[str, Record]]:
        """Unread messages of brokers that do not run, in queues that the query has read from."""
        return [
            (server.name, row)
            for server in self._brokers.servers
            if not server.up
            for row in server.rows(self._topic)
            if self._knows(reading, server.name, row.queue_id)
        ]

    # -- jobs

    def _read_back(self, step: Step, heard: Heard) -> str:
        """The archive, and the messages after its last batch, as one view."""
        reading = self._readings["now"]
        reached = reading.query.reached
        if reached is None or reading.again:
            return ""
        stored = {number: rows for number, rows in reading.query.sink.items() if number in reading.query.commits}
        live = {name: value for name, value in self._options.items() if name != "startingOffsets"}

        def both() -> list[Found]:
            begin = where_live_begins(live, read_offset(reached))
            options = live | {"startingOffsets": begin}
            found = batch_rows(RocketMQDataSource(CaseInsensitiveDict(options)).reader(SCHEMA))
            return [row for number in sorted(stored) for row in stored[number]] + found

        rows, error = self._tried(both)
        if error is not None:
            return f"read_back: {self._allowed(error, self._truth(), True)}"
        wanted = self._truth()
        got = self._checked(rows, wanted, once=True)
        for broker, row in wanted:
            here = key(broker, row)
            if here not in got and here not in reading.forgiven and not self._dropped(row, heard):
                raise self._missing("read_back", broker, row)
        return f"read_back: {len(rows)} rows"

    def _mirror(self, step: Step, heard: Heard) -> str:
        """The topic is copied to another, exactly once: through half messages and the log of batches."""
        if self._bodies == "column":
            return ""  # a mirror refuses it
        reading = self._readings["mirror"]
        route = self._brokers.route(self._copy)
        for server in self._brokers.up:
            if server.name not in route:
                self._brokers.set_topic(server, self._copy, 2)
        kill = ("", "planned", "written", "twice", "sunk", "committed")[step.one(0, 6)] if step.pick[0] else ""
        said = "mirror" + (" run twice at once" if kill == "twice" else f", killed when {kill}" if kill else "")
        sink = {
            "namesrv": self._brokers.address, "topic": self._copy, "mode": "exactly-once",
            "checkpointLocation": str(self._folder / "mirror"), "requestTimeoutMs": "30000",
        }  # fmt: skip

        def write(number: int, rows: Sequence[Found]) -> None:
            self._written += 1
            bodies = pa.array([row["body"] for row in rows], pa.binary())
            batch = pa.RecordBatch.from_arrays([bodies], names=["body"])
            task = Task(f"mirror-{self._topic}", number, 0, 0, f"run-{self._written}")
            runs = [StreamWriter(sink_options(sink, streaming=True)) for _ in range(2 if kill == "twice" else 1)]
            written = [writer.write_task(iter([batch]), task) for writer in runs]
            if kill == "written":
                raise Killed
            for writer, message in zip(runs, written, strict=True):
                writer.commit([message], number)

        reading.query.write = write
        point = "" if kill in ("written", "twice") else kill
        _, error = self._tried(lambda: reading.query.run(point))
        result = self._streamed(reading, error, heard, bool(kill) and kill != "twice", said)
        if error is None and not kill and self._all_up():
            held = Counter(row.body for server in self._brokers.up for row in server.rows(self._copy))
            sunk: Counter[bytes] = Counter(row["body"] for row in reading.query.rows)
            if held != sunk and not self._copies_lost():
                lost, more = sunk - held, held - sunk
                raise Wrong(f"{said}: of {sunk.total()} messages {lost.total()} are not in {self._copy}, and "
                            f"{more.total()} are there twice")  # fmt: skip
        return f"{said}: {result}"

    def _all_up(self) -> bool:
        return all(server.up or not server.store.exists() for server in self._brokers.servers)

    def _copies_lost(self) -> bool:
        """Whether an operator destroyed copies: a broker was replaced, restored, or its log expired."""
        return any(server.destroyed for server in self._brokers.servers)

    # -- the judgement

    def _truth(self) -> list[tuple[str, Record]]:
        """The messages of the topic, by broker, as the reader finds them in the logs of those that have it."""
        route = self._brokers.route(self._topic)
        return [
            (server.name, row)
            for server in self._brokers.up
            if server.name in route
            for row in server.rows(self._topic)
        ]

    def _tried(self, run: Callable[[], Any]) -> tuple[Any, BolideError | None]:
        try:
            return run(), None
        except BolideError as error:
            return [], error
        except Exception as error:
            raise Wrong(f"a run crashed with {type(error).__name__}: {error}") from error

    def _is_loss(self, error: BolideError) -> bool:
        return type(error).__name__ in ("DataLost", "JobFailed")

    def _allowed(self, error: BolideError, wanted: list[tuple[str, Record]], stream: bool) -> str:
        text = f"{type(error).__name__}: {error}"
        if self._topic not in text and not any(server.name in text for server in self._brokers.servers):
            raise Wrong(f"an error that names no place: {text}")
        if "the body of" in text:
            if self._bodies != "fail" or all(row.sent_body is not None for _, row in wanted):
                raise Wrong(f"an error without a reason: {text}")
        elif not self.disturbed and "has no route" not in text:
            raise Wrong(f"an error without a reason: {text}")
        return text[:160]

    def _checked(self, rows: list[Found], wanted: list[tuple[str, Record]], once: bool) -> set[Key]:
        """The keys of these rows, each with the body that the reader finds."""
        truth = {(broker, row.at): row for broker, row in wanted}
        got: set[Key] = set()
        places: set[tuple[str, int]] = set()
        for found in rows:
            place = found["broker"], int(found["offset_message_id"][-16:], 16)
            if place in places and once:
                raise Wrong(f"the message at {place} came twice")
            places.add(place)
            row = truth.get(place)
            if row is None:
                continue  # destroyed since
            if row.sent_body == found["body"] and row.queue_offset == found["queue_offset"]:
                got.add(key(place[0], row))
            elif once:
                raise Wrong(f"the message at {place} came as another: {found}")
        return got

    def _dropped(self, row: Record, heard: Heard) -> bool:
        """Whether a message has no readable body, was to be dropped, and was counted."""
        if row.sent_body is not None or self._bodies != "drop":
            return False
        return any(_BODIES.search(line) for line in heard.lines)

    def _missing(self, said: str, broker: str, row: Record) -> Wrong:
        return Wrong(
            f"{said}: no error, and without {self._topic}@{broker}:{row.queue_id} offset {row.queue_offset}, which is "
            "in the log"
        )
