from pyspark.sql import SparkSession


def main(namesrv: str = "127.0.0.1:9876") -> None:
    spark = SparkSession.builder.getOrCreate()
    orders = spark.createDataFrame([("one coffee", "coffee"), ("two teas", "tea")], "body STRING, tags STRING")
    orders.write.format("rocketmq").mode("append").options(namesrv=namesrv, topic="Orders").save()

    stored = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="Orders").load()
    stored.selectExpr("queue_id", "queue_offset", "tags", "CAST(body AS STRING) AS body").show()


if __name__ == "__main__":
    main()
