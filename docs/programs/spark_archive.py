"""Archives what is new in the topic Orders: `spark-submit spark_archive.py NAMESRV FOLDER`."""

import sys

from pyspark.sql import SparkSession

from bolide.spark import archive


def main(namesrv: str, folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    done = archive(spark, folder, {"namesrv": namesrv, "subscribe": "Orders"})
    print(f"archived {done.messages} messages")


if __name__ == "__main__":
    main(*sys.argv[1:])
