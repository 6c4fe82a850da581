"""The measures of `bolide bench spark`: rates of sources, sink and jobs, compared with the limit of a Python source.

A measure is a function of a `Bench`, listed in `MEASURES`. Rates are from the second of two runs in a session, so that
they exclude the start of the JVM and of workers. Jobs of the command line are started as by a user, and their rates
include the start.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bolide.errors import LocalError
from bolide.interpreter import python
from bolide.layout.columns import find_starts
from bolide.layout.shape import StoreShape
from bolide.spark.bench.ready import FIVE, FIVE_DDL, ReadySource
from bolide.spark.bench.store import TOPIC
from bolide.spark.dispatch.dispatch_parts import make_part
from bolide.spark.session.session import environment
from bolide.spark.store.log_scan import CHUNK, FoundRecords, scan
from bolide.spark.store.store_options import store_options
from bolide.spark.store.store_plan import plan_stretches
from bolide.spark.store.store_rows import read_stretch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LIMIT: Final = "limit"
SAMPLE: Final = 64 * 1024 * 1024
"""Bytes of the log on which each stage is timed."""


@dataclass(frozen=True)
class Figure:
    """A rate. `cpu_seconds` is the total of all processes, or 0 if the system does not report it."""

    measure: str
    body: int
    cores: int
    rows: int
    seconds: float
    cpu_seconds: float = 0.0
    note: str = ""

    @property
    def rate(self) -> float:
        """Rows per second."""
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass
class Bench:
    """The inputs of a measure: a session of `cores`, a store of `messages` records, and a cluster if there is one."""

    spark: SparkSession
    cores: int
    body: int
    messages: int
    store: Path
    namesrv: str = ""
    figures: list[Figure] = field(default_factory=list)

    def timed(self, measure: str, rows: int, run: Callable[[], object], note: str = "", warm: bool = True) -> Figure:
        """Run a measure and record its rate. With `warm`, run it once before without recording."""
        if warm:
            run()
        cpu, began = tree_cpu_seconds(), time.monotonic()
        run()
        seconds = time.monotonic() - began
        figure = Figure(measure, self.body, self.cores, rows, seconds, max(tree_cpu_seconds() - cpu, 0.0), note)
        self.figures.append(figure)
        return figure


def limit(bench: Bench) -> None:
    """Measure ready Arrow batches with the five columns of the comparison."""
    bench.spark.dataSource.register(ReadySource)
    options = {"rows": str(bench.messages), "body": str(bench.body), "partitions": str(4 * bench.cores)}
    bench.timed(LIMIT, bench.messages, lambda: to_nowhere(_frame(bench, "bolide-bench-ready", options, None)))


def offline(bench: Bench) -> None:
    """Measure the offline source with the same five columns."""
    options = {"path": str(bench.store)}
    bench.timed(
        "offline source", bench.messages, lambda: to_nowhere(_frame(bench, "rocketmq-store", options, FIVE_DDL))
    )


def dispatch(bench: Bench) -> None:
    """Measure `bolide pipeline dispatch` from the start of its process to its end."""
    with tempfile.TemporaryDirectory(prefix="bolide-bench-", dir=bench.store.parent) as out:
        command = python("-m", "bolide.cli", "pipeline", "dispatch", str(bench.store), "--out", f"{out}/out")
        command += ["--master", f"local[{bench.cores}]", "--json"]
        reports: list[dict[str, Any]] = []

        def run() -> None:
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
            if done.returncode:
                raise LocalError(f"the rebuild failed: {done.stderr.strip().splitlines()[-1]}")
            reports.append(json.loads(done.stdout))

        figure = bench.timed("dispatch", bench.messages, run, warm=False)
        stages: Mapping[str, float] = reports[0]["stages"]
        start = figure.seconds - float(reports[0]["seconds"])
        told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in stages.items())
        note = f"process and Spark start {start:.1f} s, {told}"
        # Processes that have ended report no processor time.
        bench.figures[-1] = Figure(**{**vars(figure), "cpu_seconds": 0.0, "note": note})


def sink(bench: Bench) -> None:
    """Measure the sink, at least once, into a topic of eight queues."""
    if bench.namesrv:
        source = {"rows": str(bench.messages), "body": str(bench.body), "partitions": str(2 * bench.cores)}
        bench.spark.dataSource.register(ReadySource)
        frame = _frame(bench, "bolide-bench-ready", source, None).select("body")
        options = {"namesrv": bench.namesrv, "topic": topic_of(bench.body, bench.cores)}
        write = frame.write.format("rocketmq").mode("append").options(**options)
        bench.timed("sink", bench.messages, write.save, warm=False)


def live(bench: Bench) -> None:
    """Measure the live source with the same five columns, over the messages of the sink."""
    if bench.namesrv:
        options = {"namesrv": bench.namesrv, "subscribe": topic_of(bench.body, bench.cores)}
        found = _frame(bench, "rocketmq", options, FIVE_DDL).count()
        for pulled in ("32", "1024"):
            given = {**options, "pullBatchSize": pulled}
            read = partial(_read_all, bench, "rocketmq", given)
            bench.timed(f"live source, {pulled} a pull", found, read)


def archive(bench: Bench) -> None:
    """Measure one `archive` of the messages of the sink to Parquet."""
    if bench.namesrv:
        from bolide.spark.jobs.archive import archive as run

        options = {"namesrv": bench.namesrv, "subscribe": topic_of(bench.body, bench.cores)}
        with tempfile.TemporaryDirectory(prefix="bolide-bench-") as out:
            bench.timed("archive", bench.messages, lambda: run(bench.spark, f"{out}/table", options), warm=False)


MEASURES: Final[dict[str, Callable[[Bench], None]]] = {
    LIMIT: limit,
    "offline": offline,
    "dispatch": dispatch,
    "sink": sink,
    "live": live,
    "archive": archive,
}
"""The measures, in this order because source and archive read the messages of the sink."""


def measure(bench: Bench, name: str) -> None:
    """Run one of `MEASURES`. Raises `JobFailed` with Spark's reason."""
    from pyspark.errors import PySparkException

    from bolide.spark.failures import job_failed

    try:
        MEASURES[name](bench)
    except PySparkException as error:
        raise job_failed(error) from None


def stages(store: Path) -> dict[str, dict[str, float]]:
    """Return the time in µs per row of each stage of reading and dispatch, measured in this process on a sample."""
    shape = StoreShape()
    part = plan_stretches(store, SAMPLE)[0]
    options = store_options({"path": str(store)})
    found: dict[str, dict[str, float]] = {}
    read = _seconds(lambda: _read_only(part.path, part.end))
    starts = _seconds(lambda: _starts_only(part.path, part.end))
    rows = sum(len(step.starts) for step in scan(part) if isinstance(step, FoundRecords))
    whole = _seconds(lambda: list(read_stretch(part, options, FIVE)))
    with tempfile.TemporaryDirectory(prefix="bolide-bench-") as folder:
        derived = _seconds(lambda: make_part([part], shape, f"{folder}/part", 0))
    micro = 1e6 / max(rows, 1)
    head = {"read": read * micro, "find records": (starts - read) * micro}
    found["offline source"] = {**head, "columns and batches": (whole - starts) * micro}
    found["dispatch, first stage"] = {**head, "units, keys and part file": (derived - starts) * micro}
    return found


def to_nowhere(frame: DataFrame) -> None:
    """Run a query and discard its rows."""
    frame.write.format("noop").mode("overwrite").save()


def tree_cpu_seconds() -> float:
    """Return the processor seconds of this process and its living descendants, including the JVM and its workers."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended while it was read
        parents[int(stat.parent.name)] = int(fields[1])
        ticks[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    total = 0
    for pid, used in ticks.items():
        at = pid
        while at not in (0, 1, os.getpid()):
            at = parents.get(at, 0)
        total += used if at == os.getpid() else 0
    return total / os.sysconf("SC_CLK_TCK")


def _frame(bench: Bench, source: str, options: Mapping[str, str], schema: str | None) -> DataFrame:
    reader = bench.spark.read.format(source).options(**options)
    return (reader if schema is None else reader.schema(schema)).load()


def _read_all(bench: Bench, source: str, options: Mapping[str, str]) -> None:
    to_nowhere(_frame(bench, source, options, FIVE_DDL))


def topic_of(body: int, cores: int) -> str:
    """Return the topic of sink and live source. It must exist, with eight queues."""
    return f"{TOPIC}{body}x{cores}"


def _seconds(run: Callable[[], object]) -> float:
    run()
    began = time.process_time()
    run()
    return time.process_time() - began


def _read_only(path: str, size: int) -> None:
    with open(path, "rb", 0) as file:
        for _ in range(0, size, CHUNK):
            file.read(CHUNK)


def _starts_only(path: str, size: int) -> None:
    with open(path, "rb", 0) as file:
        for at in range(0, size, CHUNK):
            data = file.read(CHUNK)
            find_starts(data, at)
