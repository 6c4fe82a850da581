"""Makes the archive of classes for later starts of Spark, by a small session that does a little of everything."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import OptionError
from bolide.spark.session.jvm import JAVA_OPTIONS, end
from bolide.spark.session.jvm_launch import FOLDER_VARIABLE
from bolide.spark.session.session import QUIET_START, begin, has_begun, job_context, job_session, kept_here

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MASTER: Final = "local[1]"
_LIMIT_S: Final = 600.0


@dataclass(frozen=True)
class Prepared:
    """What was made."""

    path: str
    size: int
    seconds: float
    """0 if it already existed."""


def prepare() -> Prepared:
    """Make the archive for this Java and this PySpark, unless it exists. Raises OptionError if it cannot be made.

    Two processes may do so at once: each writes a separate file and renames it.
    """
    began = time.monotonic()
    kept = kept_here()
    if kept is None:
        raise OptionError(f"there is no folder for it, or no Java: name a folder with {FOLDER_VARIABLE}")
    if kept.archive.is_file() and kept.launch() is not None:
        return Prepared(str(kept.archive), kept.archive.stat().st_size, 0.0)
    if kept.launch() is None:
        end(job_context("bolide spark prepare", _MASTER, QUIET_START))  # this records how Spark starts
    fresh = kept.folder / f"{kept.key}.{os.getpid()}.jsa"
    try:
        _write(str(fresh))
        if not fresh.is_file():
            raise OptionError(f"{kept.java} made no archive of its classes: use Java 17 or later with its own")
        os.replace(fresh, kept.archive)
    finally:
        fresh.unlink(missing_ok=True)
    return Prepared(str(kept.archive), kept.archive.stat().st_size, time.monotonic() - began)


def _write(path: str) -> None:
    """A session whose JVM writes the archive when it ends."""
    options = f"{QUIET_START[JAVA_OPTIONS]} -XX:ArchiveClassesAtExit='{path}'"
    begin(_MASTER, {**QUIET_START, JAVA_OPTIONS: options})
    if not has_begun():
        raise OptionError(
            "Spark's start is changed by your environment, such as SPARK_HOME or JAVA_TOOL_OPTIONS: unset it"
        )
    spark = job_session("bolide spark prepare", _MASTER)
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    try:
        _do_a_little(spark, f"{spark.conf.get('spark.sql.warehouse.dir')}/table")
    finally:
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait(_LIMIT_S)
        known: Any = SparkContext
        known._gateway = known._jvm = None


def _do_a_little(spark: SparkSession, table: str) -> None:
    """Typical operations of the jobs, so that the archive contains their classes."""
    done = spark.sparkContext.accumulator(0)
    spark.sparkContext.parallelize(range(4), 2).map(done.add).collect()
    rows = spark.range(100).selectExpr("id", "id % 7 AS queue", "cast(id AS string) AS text")
    rows.repartition(2).write.partitionBy("queue").parquet(table)
    spark.read.parquet(table).where("id > 3").groupBy("queue").count().orderBy("queue").collect()
