"""Program that uses Spark Connect: an archive, and its view. Prints the result of each step."""

from __future__ import annotations

import json
import sys

from pyspark import SparkContext
from pyspark.sql import SparkSession

from bolide.client import Message
from bolide.client.blocking import Producer
from bolide.spark.errors import OptionError
from bolide.spark.jobs.archive import archive, read_back


def main(remote: str, namesrv: str, out: str) -> None:
    """Archive ten messages, and read them together with three later ones."""
    spark = SparkSession.builder.remote(remote).getOrCreate()
    options = {"namesrv": namesrv, "subscribe": "T"}
    steps: dict[str, object] = {"connect": type(spark).__module__.startswith("pyspark.sql.connect")}
    steps["JVM"] = SparkContext._gateway is not None
    with Producer("connect", namesrv) as producer:
        for number in range(10):
            producer.send(Message("T", b"%d" % number))
        try:
            read_back(spark, out, options)
        except OptionError:
            steps["too early"] = "refused"
        steps["archived"] = archive(spark, out, options).messages
        for number in range(3):
            producer.send(Message("T", b"later %d" % number))
    view = read_back(spark, out, options)
    steps["view"] = {str(row.archived): row["count"] for row in view.groupBy("archived").count().collect()}
    sys.stdout.write(json.dumps(steps) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
