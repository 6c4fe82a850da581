"""Silver: bodies read as JSON with the schema `bolide.body.schema`; what is no JSON goes to a table of its own."""

from pyspark import pipelines as dp
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


def text() -> Column:
    """The body as text."""
    return f.decode("body", "UTF-8")


@dp.table(comment="Messages whose body is JSON, with its fields as columns.")
def silver() -> DataFrame:
    """Place, time and tags of each message, and the fields of its body."""
    rows = spark.readStream.table("bronze").where(f.try_parse_json(text()).isNotNull())
    typed = rows.withColumn("value", f.from_json(text(), str(spark.conf.get("bolide.body.schema"))))
    return typed.select("message_id", "topic", "tags", "keys", "born_timestamp", "store_timestamp", "value.*")


@dp.table(comment="Messages whose body is no JSON.")
def silver_rejected() -> DataFrame:
    """What silver leaves out, whole."""
    return spark.readStream.table("bronze").where(f.try_parse_json(text()).isNull())
