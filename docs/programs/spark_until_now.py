from pathlib import Path

from pyspark.sql import SparkSession


def main(namesrv: str = "127.0.0.1:9876", out: str = "orders") -> None:
    spark = SparkSession.builder.getOrCreate()
    source = spark.readStream.format("rocketmq").options(namesrv=namesrv, subscribe="Orders", untilNow=True)
    orders = source.options(startingOffsets="earliest", maxOffsetsPerTrigger=500).load()
    writer = orders.writeStream.format("parquet").option("checkpointLocation", str(Path(out) / "checkpoint"))
    query = writer.start(str(Path(out) / "messages"))
    query.processAllAvailable()
    query.stop()


if __name__ == "__main__":
    main()
