"""Bronze: the topic unchanged, one row per message, each exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table(comment="Messages as the brokers stored them.")
def bronze() -> DataFrame:
    """New messages of the topic since the last run; the first run begins with the oldest."""
    return (
        spark.readStream.format("rocketmq")
        .option("namesrv", spark.conf.get("bolide.namesrv"))
        .option("subscribe", spark.conf.get("bolide.topic"))
        .option("startingOffsets", "earliest")
        .load()
    )
