from pathlib import Path

from pyspark.sql import SparkSession


def main(store: str = "store", out: str = "copied") -> None:
    spark = SparkSession.builder.getOrCreate()
    log = spark.readStream.format("rocketmq-store").option("maxBytesPerTrigger", 256 << 20).load(store)
    wanted = log.where("kind = 'normal'").select("topic", "queue_id", "queue_offset", "body")
    writer = wanted.writeStream.format("parquet").option("checkpointLocation", str(Path(out) / "checkpoint"))
    writer.trigger(availableNow=True).start(str(Path(out) / "messages")).awaitTermination()
    print(spark.read.parquet(str(Path(out) / "messages")).count(), "messages")


if __name__ == "__main__":
    main()
