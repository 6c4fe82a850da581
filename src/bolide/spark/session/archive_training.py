"""The small session whose JVM writes the archive of Spark's classes (`class_archive.prepare` runs it)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from bolide.spark.session.session import JAVA_OPTIONS, QUIET_START, job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def train(path: str) -> None:
    """Run the small session whose JVM writes the archive to `path` when it ends."""
    options = f"{QUIET_START[JAVA_OPTIONS]} {shlex.quote(f'-XX:ArchiveClassesAtExit={path}')}"
    spark = job_session("bolide spark prepare", "local[1]", settings={**QUIET_START, JAVA_OPTIONS: options})
    _do_a_little(spark, f"{spark.conf.get('spark.sql.warehouse.dir')}/table")
    spark.stop()


def _do_a_little(spark: SparkSession, table: str) -> None:
    """Run the operations of most jobs, so that the JVM loads their classes."""
    done = spark.sparkContext.accumulator(0)
    spark.sparkContext.parallelize(range(4), 2).map(done.add).collect()
    rows = spark.range(100).selectExpr("id", "id % 7 AS queue", "cast(id AS string) AS text")
    rows.repartition(2).write.partitionBy("queue").parquet(table)
    spark.read.parquet(table).where("id > 3").groupBy("queue").count().orderBy("queue").collect()
