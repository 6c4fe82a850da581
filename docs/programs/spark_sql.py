from pathlib import Path

from pyspark.sql import SparkSession


def main(namesrv: str = "127.0.0.1:9876", checkpoint: str = "paid-checkpoint") -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sql("CREATE TABLE IF NOT EXISTS messages USING rocketmq")
    spark.sql("CREATE TABLE IF NOT EXISTS outbox (body STRING, tags STRING) USING rocketmq")

    to_orders = f"WITH (namesrv = '{namesrv}', topic = 'Orders')"
    spark.sql(f"INSERT INTO outbox {to_orders} VALUES ('one coffee', 'coffee'), ('two teas', 'tea')")

    orders = f"messages WITH (namesrv = '{namesrv}', subscribe = 'Orders')"
    spark.sql(f"SELECT tags, CAST(body AS STRING) AS body FROM {orders} ORDER BY tags").show()

    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders AS SELECT * FROM {orders}")
    teas = spark.sql("SELECT body, tags FROM orders WHERE tags = 'tea'").selectExpr(
        "CAST(body AS STRING) AS body", "tags"
    )
    teas.write.options(namesrv=namesrv, topic="Paid").mode("append").format("rocketmq").saveAsTable("outbox")

    stream = spark.readStream.options(namesrv=namesrv, subscribe="Orders", startingOffsets="earliest").table("messages")
    paid = stream.where("tags = 'coffee'").selectExpr("CAST(body AS STRING) AS body", "tags")
    writer = paid.writeStream.options(namesrv=namesrv, topic="Paid").option("checkpointLocation", str(Path(checkpoint)))
    writer.trigger(availableNow=True).toTable("outbox").awaitTermination()

    spark.sql(f"SELECT tags FROM messages WITH (namesrv = '{namesrv}', subscribe = 'Paid') ORDER BY tags").show()


if __name__ == "__main__":
    main()
