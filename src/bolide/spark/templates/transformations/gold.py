"""Gold: aggregates for people, computed again from silver by each run."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.materialized_view(comment="Messages by tag and hour, and how long they took to be stored.")
def gold_by_hour() -> DataFrame:
    """One row per tag and hour."""
    waited = f.unix_millis("store_timestamp") - f.unix_millis("born_timestamp")
    hour = f.date_trunc("hour", "store_timestamp").alias("hour")
    return (
        spark.read.table("silver")
        .groupBy("topic", "tags", hour)
        .agg(f.count("*").alias("messages"), f.avg(waited).alias("mean_wait_ms"))
    )
