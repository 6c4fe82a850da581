from pathlib import Path

from pyspark.sql import SparkSession


def main(namesrv: str = "127.0.0.1:9876", aside: str = "unreadable") -> None:
    spark = SparkSession.builder.getOrCreate()
    orders = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="Orders")

    marked = orders.option("badRecords", "column").load()
    for row in marked.where("_bad_record IS NOT NULL").collect():
        print(f"{row.topic} offset {row.queue_offset}: {row._bad_record}")

    readable = orders.options(badRecords="drop", deadLetterPath=aside).load()
    print(readable.select("body").count(), "messages read")
    if Path(aside).exists():
        print(spark.read.parquet(aside).select("record").count(), "put aside")


if __name__ == "__main__":
    main()
