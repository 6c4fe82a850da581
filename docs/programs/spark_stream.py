from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
orders = spark.readStream.format("rocketmq").option("namesrv", "127.0.0.1:9876").option("subscribe", "Orders").load()
query = orders.selectExpr("tags", "CAST(body AS STRING) AS body").writeStream.format("console").start()
query.awaitTermination()
