from pyspark.sql import SparkSession


def main(store: str = "store") -> None:
    spark = SparkSession.builder.getOrCreate()
    messages = spark.read.format("rocketmq-store").load(store)
    messages.groupBy("kind", "topic").count().orderBy("kind", "topic").show(truncate=False)

    units = spark.read.format("rocketmq-store").option("table", "consume_queue").load(store)
    lost = units.join(messages, "physical_offset", "left_anti")
    print(f"{lost.count()} queue units lead to no message")


if __name__ == "__main__":
    main()
