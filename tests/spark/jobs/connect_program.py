"""Run in a process of its own, which speaks Spark Connect: an archive, and its view. Prints what each step came to."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.jobs.archive import archive, read_back
from tests.client.patient_blocking import Producer


def main(namesrv: str, out: str) -> None:
    """Archive ten messages, and look at them and at three that came later."""
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    options = {"namesrv": namesrv, "subscribe": "T"}
    steps: dict[str, object] = {"connect": type(spark).__module__.startswith("pyspark.sql.connect")}
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
