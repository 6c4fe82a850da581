import tempfile

from pyspark.sql import SparkSession


def main(namesrv: str = "127.0.0.1:9876", checkpoint: str = "") -> None:
    spark = SparkSession.builder.getOrCreate()
    checkpoint = checkpoint or tempfile.mkdtemp()  # in production, a folder that outlives the driver
    orders = spark.readStream.format("rocketmq").options(namesrv=namesrv, subscribe="Orders")
    paid = orders.option("startingOffsets", "earliest").load().where("tags = 'paid'")
    paid = paid.selectExpr("body", "keys", "keys[0] AS sharding_key")

    query = (
        paid.writeStream.format("rocketmq")
        .options(namesrv=namesrv, topic="Paid", mode="exactly-once", deadLetterPath=f"{checkpoint}-refused")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
