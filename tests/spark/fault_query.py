"""A real query as a program, for rounds that kill it: `python -m tests.spark.fault_query FOLDER NAMESRV SEED`.

It copies topic In<SEED> to Out<SEED> exactly once until it has read what is there. A task may fail twice.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bolide.spark import ending_runs
from tests.runner.early_worker import python_for_workers
from tests.spark.spark_home import spark_home


def main(folder: Path, namesrv: str, seed: str) -> None:
    """Run the query to its end."""
    from pyspark.sql import SparkSession

    os.environ.update(
        SPARK_HOME=str(spark_home(folder / f"home-{os.getpid()}")),
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=python_for_workers(str(folder)),
        PYSPARK_DRIVER_PYTHON=sys.executable,
    )
    builder = SparkSession.builder.master("local[2,3]").appName("fault-query")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.log.level": "ERROR",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    rows = (
        spark.readStream.format("rocketmq")
        .options(namesrv=namesrv, subscribe=f"In{seed}", startingOffsets="earliest", maxOffsetsPerTrigger=40)
        .options(**ending_runs.OPTIONS)
        .load()
        .select("body")
    )
    query = (
        rows.writeStream.format("rocketmq")
        .options(namesrv=namesrv, topic=f"Out{seed}", mode="exactly-once", requestTimeoutMs=3000)
        .option("checkpointLocation", str(folder / f"checkpoint-{seed}"))
        .trigger(**ending_runs.TRIGGER)
        .start()
    )
    sys.stdout.write("started\n")
    sys.stdout.flush()
    while not ending_runs.ended(query, 1, follow=False):
        pass
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
