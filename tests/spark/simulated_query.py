"""Spark's part of a streaming query, played by one process a driver and forked processes for its tasks and commits.

It does what Spark does around our classes, in Spark's order, with Spark's checkpoint: `offsets/N` is written before a
batch is planned into tasks, every attempt writes in full before anyone decides which one counts, the answers travel
pickled, `commit` runs in a process of its own on another writer object, `commits/N` comes last, and a restart replays
what has `offsets/N` and no `commits/N`. A batch starts in milliseconds and not in seconds, and it can be killed at any
line. What only Spark itself can show (its own scheduling and option passing) is shown by queries in a real session.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.types import BinaryType, MapType, StringType, StructField, StructType

from bolide.spark.data_source import RocketMQDataSource
from bolide.spark.sink.batch_log import BatchDecision, BatchLog
from bolide.spark.sink.committing import PARTS, CommitParts
from bolide.spark.sink.endings import Ender
from bolide.spark.sink.half_handles import HalfRun
from bolide.spark.sink.messages import Task
from bolide.spark.sink.sink_options import sink_options
from bolide.spark.sink.writer import StreamWriter
from bolide.spark.spark_versions import ReadMaxRows
from bolide.transport.blocking import PendingRun

IN_SCHEMA = StructType(
    [StructField("body", BinaryType()), StructField("properties", MapType(StringType(), StringType()))]
)
ATTEMPTS = 4
POINTS = (
    "planned",
    "before_decide",
    "after_decide",
    "in_commit",
    "before_finish",
    "after_finish",
    "before_spark_commit",
)
"""Lines at which a round may kill the driver together with the process of its commit."""


@dataclass
class Plan:
    """One query and what goes wrong in one run of it."""

    checkpoint: str
    source: dict[str, str]
    sink: dict[str, str]
    rows_per_batch: int
    expected: int
    """Offsets to be read until the query is done."""
    seed: int
    crash: str = ""
    """One of POINTS; the process kills itself and its driver there."""
    crash_after: int = 1
    """How often the point is passed before."""
    twice: float = 0.0
    """Share of tasks that a second attempt overtakes, while the first goes on writing."""
    broken: float = 0.0
    """Share of attempts that are killed on the way."""
    slow: float = 0.0
    """Longest pause of a task between ten rows."""
    pids: Path = field(default_factory=Path)
    """Folder in which tasks and commits leave their process ids."""


def run_driver(plan: Plan) -> None:
    """Run the query until it has read everything; never returns. Exit status 0: done."""
    status = 3
    try:
        _Driver(plan).run()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def fork(work: Callable[[], None]) -> int:
    """Run something in a process of its own that ends with it; its id."""
    pid = os.fork()
    if pid:
        return pid
    status = 3
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


class _Driver:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._random = random.Random(plan.seed)
        self._folder = Path(plan.checkpoint)
        for name in ("offsets", "commits", "answers"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        identity = self._folder / "metadata"
        if not identity.exists():
            _write(identity, json.dumps({"id": str(uuid.UUID(int=random.Random(str(identity)).getrandbits(128)))}))
        self._query = json.loads(identity.read_text())["id"]
        self._run = uuid.uuid4().hex
        self._crash_in = plan.crash_after
        self._driver = os.getpid()
        source = RocketMQDataSource(CaseInsensitiveDict(plan.source))
        self._reader: Any = source.streamReader(IN_SCHEMA)

    def run(self) -> None:
        batch = self._last("commits") + 1
        start = self._offset(batch - 1)
        if start is None:
            start = self._reader.initialOffset()
        while True:
            end = self._offset(batch)
            if end is None:
                end = self._reader.latestOffset(start, ReadMaxRows(self._plan.rows_per_batch))
                if end == start:
                    if _reached(end) >= self._plan.expected:
                        return
                    time.sleep(0.05)
                    continue
                _write(self._folder / "offsets" / str(batch), json.dumps(end))
            self._pass("planned")
            self._one_batch(batch, start, end)
            self._pass("before_spark_commit")
            _write(self._folder / "commits" / str(batch), "{}")
            start, batch = end, batch + 1

    def _one_batch(self, batch: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        partitions = list(self._reader.partitions(start, end))
        writer = pickle.dumps(self._writer())  # the planner's object, as the tasks get it
        reader = pickle.dumps(self._reader)
        answers = [self._task(Task(self._query, batch, number, 0, self._run), pickle.dumps(partition), reader, writer)
                   for number, partition in enumerate(partitions)]  # fmt: skip
        messages = [self._answer(path, pid) for path, pid in answers]
        if any(message is None for message in messages):
            self._writer().abort([message and pickle.loads(message) for message in messages], batch)
            raise RuntimeError(f"batch {batch} failed {ATTEMPTS} times")

        def commit() -> None:
            self._writer(self._parts()).commit([pickle.loads(message) for message in messages if message], batch)

        pid = fork(commit)
        self._note(pid)
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"the commit of batch {batch} failed")

    def _task(self, task: Task, partition: bytes, reader: bytes, writer: bytes) -> tuple[Path, int]:
        """Start attempts until one answers; a task that is overtaken goes on beside its successor."""
        for attempt in range(ATTEMPTS):
            answer = self._folder / "answers" / uuid.uuid4().hex
            slow = self._plan.slow * self._random.random()
            who = replace(task, attempt=attempt)
            seed = self._random.random()
            pid = fork(partial(_attempt, who, partition, reader, writer, answer, slow, seed))
            self._note(pid)
            if self._random.random() < self._plan.broken:
                _idle(self._random.random() * 0.05)
                _kill(pid)
                os.waitpid(pid, 0)
            elif attempt == 0 and self._random.random() < self._plan.twice:
                continue  # thought dead; it is not
            else:
                return answer, pid
        return answer, pid

    def _answer(self, path: Path, pid: int) -> bytes | None:
        try:
            os.waitpid(pid, 0)
        except ChildProcessError:
            pass  # killed by us, and waited for
        return path.read_bytes() if path.exists() else None

    def _writer(self, parts: CommitParts = PARTS) -> StreamWriter:
        return StreamWriter(sink_options(self._plan.sink, streaming=True), parts)

    # -- dying

    def _pass(self, point: str) -> None:
        if point != self._plan.crash:
            return
        self._crash_in -= 1
        if self._crash_in <= 0:
            _kill(self._driver)
            _kill(os.getpid())

    def _parts(self) -> CommitParts:
        """The log and the ender of a commit that stops at the chosen line."""
        reach = self._pass

        class Log(BatchLog):
            def decide(self, batch: int, decision: BatchDecision) -> bool:
                reach("before_decide")
                made = super().decide(batch, decision)
                reach("after_decide")
                return made

            def finish(self, batch: int, topic: str | None = None) -> None:
                reach("before_finish")
                super().finish(batch, topic)
                reach("after_finish")

        class Ends(Ender):
            together = 1

            def send_ends(self, run: HalfRun, how: int) -> PendingRun | None:
                pending = super().send_ends(run, how)
                reach("in_commit")
                return pending

        return CommitParts(Log, Ends)

    def _note(self, pid: int) -> None:
        (self._plan.pids / str(pid)).touch()

    def _offset(self, batch: int) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = json.loads((self._folder / "offsets" / str(batch)).read_text())
            return found
        except FileNotFoundError:
            return None

    def _last(self, name: str) -> int:
        return max((int(path.name) for path in (self._folder / name).iterdir() if path.name.isdecimal()), default=-1)


def _attempt(
    task: Task, partition: bytes, reader: bytes, writer: bytes, answer: Path, slow: float, seed: float
) -> None:
    pause = random.Random(seed)

    def batches() -> Iterator[Any]:
        for batch in pickle.loads(reader).read(pickle.loads(partition)):
            for first in range(0, batch.num_rows, 10):
                if slow:
                    _idle(slow * pause.random())
                yield batch.slice(first, 10)

    written = pickle.loads(writer).write_task(batches(), task)
    staged = answer.with_suffix(".part")
    staged.write_bytes(pickle.dumps(written))
    os.replace(staged, answer)


def _idle(seconds: float) -> None:
    """Let others work for a while: the moment of a fault, or a slow task."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.01))


def _write(path: Path, text: str) -> None:
    """As Spark's checkpoint does: a file is there whole, or not at all."""
    staged = path.with_name(f".{path.name}")
    staged.write_text(text)
    os.replace(staged, path)


def _reached(offset: dict[str, Any]) -> int:
    return sum(at for brokers in offset["queues"].values() for queues in brokers.values() for at in queues.values())


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
