"""The Spark part of the demo, a process of its own: messages to typed rows to Parquet, while they are being sent.

    python -m demo.stream NAMESRV FOLDER TOTAL

A Structured Streaming query reads the topic and appends typed rows to Parquet below FOLDER. When half of TOTAL rows are
in, it is stopped while running, and a new query resumes from its checkpoint. At the end the hourly table is computed
from the Parquet files alone and written to FOLDER/hourly.json.

Lines on standard output: {"ready": true}, {"rows": n}, {"restarted": rows}, {"done": true, "rows": n}.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from demo.flights import TOPIC
from demo.spark_session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BODY = (
    "row INT, year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, arr_time INT, "
    "sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "air_time INT, distance INT, hour INT, minute INT, time_hour STRING"
)
GIVE_UP_SECONDS = 240.0


def say(line: dict[str, object]) -> None:
    """One line of progress."""
    print(json.dumps(line), flush=True)


def typed(spark: SparkSession, namesrv: str) -> DataFrame:
    """The topic as a stream of flights, each with where it came from."""
    from pyspark.sql import functions as F

    messages = (
        spark.readStream.format("rocketmq")
        .option("namesrv", namesrv)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 60_000)
        .load()
    )
    flight = F.from_json(messages.body.cast("string"), BODY).alias("flight")
    return messages.select("queue_id", "queue_offset", "store_timestamp", "tags", flight).select(
        "queue_id", "queue_offset", "store_timestamp", "tags", "flight.*"
    )


def start(spark: SparkSession, namesrv: str, folder: Path) -> StreamingQuery:
    """Start or resume the query."""
    return (
        typed(spark, namesrv)
        .writeStream.format("parquet")
        .option("path", str(folder / "flights"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )


def stored(query: StreamingQuery, before: int) -> int:
    """Rows written by this run of the query, and by the one before."""
    return before + sum(progress.numInputRows for progress in query.recentProgress)


def follow(query: StreamingQuery, before: int, until: int, deadline: float) -> int:
    """Wait until so many rows are in; returns how many. Raises SystemExit when it takes too long or the query ends."""
    rows = shown = before
    while rows < until:
        if query.exception() is not None:
            raise SystemExit(f"the query ended: {query.exception()}")
        if time.monotonic() > deadline:
            raise SystemExit(f"only {rows} of {until} rows arrived in time")
        query.awaitTermination(1)
        rows = stored(query, before)
        if rows != shown:
            say({"rows": rows})
            shown = rows
    return rows


def hourly(spark: SparkSession, folder: Path) -> int:
    """Compute departures and mean delay by carrier and hour from the Parquet; returns the number of rows read."""
    from pyspark.sql import functions as F

    flights = spark.read.parquet(str(folder / "flights"))
    table = flights.groupBy("carrier", "time_hour").agg(
        F.count("*").alias("departures"),
        F.count("dep_delay").alias("known"),
        F.sum("dep_delay").alias("delay"),
    )
    rows = [
        [row.carrier, row.time_hour, row.departures, row.known, row.delay or 0]
        for row in table.toLocalIterator(prefetchPartitions=True)
    ]
    distinct = flights.select("row").distinct().count()
    (folder / "hourly.json").write_text(json.dumps({"distinct": distinct, "hourly": rows}))
    return sum(row[2] for row in rows)


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namesrv")
    parser.add_argument("folder", type=Path)
    parser.add_argument("total", type=int)
    given = parser.parse_args()
    deadline = time.monotonic() + GIVE_UP_SECONDS
    spark = session(given.folder)
    query = start(spark, given.namesrv, given.folder)
    say({"ready": True})
    half = follow(query, 0, given.total // 2, deadline)
    query.stop()
    half = stored(query, 0)
    say({"restarted": half})
    query = start(spark, given.namesrv, given.folder)
    # What the stopped query had planned and not committed is read again under the same batch id, and written once.
    follow_end_offset(query, half, given.total, deadline)
    query.stop()
    rows = hourly(spark, given.folder)
    say({"done": True, "rows": rows})
    spark.stop()


def follow_end_offset(query: StreamingQuery, before: int, total: int, deadline: float) -> None:
    """Wait until the committed end offset covers all rows: a restarted query's own counts may name a batch twice."""
    shown = before
    while True:
        if query.exception() is not None:
            raise SystemExit(f"the query ended: {query.exception()}")
        latest = query.lastProgress
        reached = before
        if latest is not None and latest.sources and latest.sources[0].endOffset:
            end = json.loads(latest.sources[0].endOffset)["queues"]
            offsets = [offset for brokers in end.values() for queues in brokers.values() for offset in queues.values()]
            reached = max(sum(offsets), before)
        if reached != shown:
            say({"rows": reached})
            shown = reached
        if reached >= total:
            query.processAllAvailable()
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"only {reached} of {total} rows arrived in time")
        query.awaitTermination(1)


if __name__ == "__main__":
    main()
