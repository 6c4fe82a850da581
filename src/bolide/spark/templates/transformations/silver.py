"""Silver: bodies read as JSON with the schema `bolide.body.schema`; invalid JSON goes to a separate table."""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
SCHEMA = str(spark.conf.get("bolide.body.schema"))


def text() -> Column:
    """The body as text."""
    return f.decode("body", "UTF-8")


@dp.table(comment="Messages whose body is JSON, with its fields as columns.")
def silver() -> DataFrame:
    """Position, time and tags of each message, and the fields of its body."""
    # No withColumn: it makes Spark read bronze while it builds the graph, and silver then does not wait for this run's.
    own = ["message_id", "topic", "tags", "keys", "born_timestamp", "store_timestamp"]
    return (
        spark.readStream.table("bronze")
        .where(f.try_parse_json(text()).isNotNull())
        .select(*own, f.from_json(text(), SCHEMA).alias("value"))
        .select(*own, "value.*")
    )


@dp.table(comment="Messages whose body is not JSON.")
def silver_rejected() -> DataFrame:
    """The complete messages that silver leaves out."""
    return spark.readStream.table("bronze").where(f.try_parse_json(text()).isNull())
