from pathlib import Path

from pyspark.sql import SparkSession

from bolide.spark import archive, read_back, replay, stats


def main(namesrv: str = "127.0.0.1:9876", folder: str = "archive") -> None:
    spark = SparkSession.builder.getOrCreate()
    orders = {"namesrv": namesrv, "subscribe": "Orders"}

    done = archive(spark, folder, orders)
    print(f"archived {done.messages} messages")

    everything = read_back(spark, folder, orders)  # the archive, then what arrived since
    counted = stats(everything)
    for tag in counted.tags:
        print(f"{tag.name}: {tag.messages} messages, {tag.bytes} bytes")

    again = replay(
        spark, folder, {"namesrv": namesrv}, where="tags = 'tea'", topic="Tea", checkpoint=str(Path(folder) / "_replay")
    )
    print(f"sent {again.messages} again")


if __name__ == "__main__":
    main()
