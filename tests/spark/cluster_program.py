"""A driver of its own on a Spark cluster: every kind of job once, while the test kills an executor. Prints JSON.

Arguments: master, name server, a golden store's name, a folder for what is written, the archive for the executors.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def slowly(folder: str) -> Any:
    """A stage whose tasks leave a mark and wait for the file `go`, so that there is something to interrupt."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        import os

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        (Path(folder) / f"{context.partitionId()}-{context.attemptNumber()}-{os.getppid()}").touch()
        end = time.monotonic() + 600
        while not (Path(folder).parent / "go").exists():
            assert time.monotonic() < end, "nobody let the tasks go on"
            time.sleep(0.05)
        yield from batches

    return run


def hanging(folder: str) -> Any:
    """A stage whose first task, in its first attempt, hands on its rows and waits until the second has done so too."""

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        attempt = context.attemptNumber() if context.partitionId() == 0 else -1
        yield from batches
        (Path(folder) / f"attempt{attempt}").touch()
        end = time.monotonic() + 600
        while attempt == 0 and not (Path(folder) / "attempt1").exists():
            assert time.monotonic() < end, "nobody started a second attempt"
            time.sleep(0.05)

    return run


def where_from(folder: str) -> Any:
    """A task that tells what it runs on, its Python, its numpy, its Bolide, once another executor runs one, too."""

    def run(_: int) -> tuple[str, str, str]:
        import os

        import numpy

        import bolide

        (Path(folder) / str(os.getppid())).touch()
        end = time.monotonic() + 600
        while len(list(Path(folder).iterdir())) < 2:
            assert time.monotonic() < end, "no second executor came"
            time.sleep(0.05)
        return sys.executable, str(numpy.__file__), str(bolide.__path__[0])

    return run


def main(master: str, namesrv: str, golden: str, folder: str, archive: str) -> None:
    from bolide.spark.dispatch.dispatch_job import dispatch_store
    from bolide.spark.jobs.archive import archive as archive_topics
    from bolide.spark.session.session import job_session
    from tests.golden.stores import golden_store

    settings = {
        "spark.archives": f"{archive}#bolide",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.speculation": "true",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "4s",  # no task takes so long but the one that waits
    }
    spark = job_session("cluster", master, Path(folder), settings)
    said: dict[str, Any] = {}
    meeting = Path(folder) / "meeting"
    meeting.mkdir()
    said["python"] = sorted(set(spark.sparkContext.parallelize(range(8), 8).map(where_from(str(meeting))).collect()))
    options = {"namesrv": namesrv, "subscribe": "T"}
    rows = spark.read.format("rocketmq").options(**options, maxRecordsPerPartition="100").load()
    marks = Path(folder) / "marks"
    marks.mkdir()
    seen = rows.select("body").mapInArrow(slowly(str(marks)), "body BINARY").collect()
    said["bodies"] = sorted(int(row.body) for row in seen)
    rows.select("body", "tags").write.format("rocketmq").mode("append").options(namesrv=namesrv, topic="Copy").save()
    # Where a machine is slow every task may get a twin, and a plain write takes the rows of both.
    copied = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="Copy").load().select("body")
    said["copied"] = copied.distinct().count()
    ids = spark.range(0, 400, 1, 4).selectExpr("CAST(CAST(id AS STRING) AS BINARY) AS body")
    once = ids.mapInArrow(hanging(folder), "body BINARY").write.format("rocketmq").mode("append")
    once.options(namesrv=namesrv, topic="Once", mode="exactly-once").save()
    said["attempts"] = sorted(path.name for path in Path(folder).glob("attempt?"))
    visible = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="Once").load().select("body")
    said["once"] = sorted(int(row.body) for row in visible.collect())
    said["archived"] = archive_topics(spark, f"{folder}/archive", options).messages
    said["read back"] = spark.read.parquet(f"{folder}/archive").count()
    stored = golden_store(golden)
    said["stored"] = spark.read.format("rocketmq-store").load(str(stored.root)).count()
    report = dispatch_store(spark, str(stored.root), stored.shape, out=f"{folder}/derived")
    said["dispatched"] = report.records
    spark.stop()
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
