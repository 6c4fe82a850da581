from pyspark.sql import SparkSession

import bolide.spark


def main(namesrv: str = "127.0.0.1:9876") -> None:
    spark = SparkSession.builder.getOrCreate()
    bodies = [('{"id": 1, "total": 9.5}', "paid"), ('{"id": 2, "total": 3.0}', "open"), ("?", "paid")]
    orders = spark.createDataFrame(bodies, "body STRING, tags STRING")
    orders.write.format("rocketmq").mode("append").options(namesrv=namesrv, topic="Orders").save()

    body = {"body.format": "json", "body.schema": "id BIGINT, total DOUBLE", "body.onBadRecord": "drop"}
    paid = bolide.spark.read(spark, namesrv=namesrv, subscribe="Orders", **body).where("tags = 'paid' AND total > 5")
    print(paid.pushed(), "and Spark does", paid.left())
    paid.load().select("id", "total").show()


if __name__ == "__main__":
    main()
