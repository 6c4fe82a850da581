from pathlib import Path

from pyspark.sql import SparkSession

from bolide.layout.shape import StoreShape
from bolide.spark import dispatch_store, verify_on_spark


def main(store: str = "store", shape: StoreShape | None = None) -> None:
    spark = SparkSession.builder.getOrCreate()
    shape = shape or StoreShape(commit_log_segment_size=1 << 30)
    verdict = verify_on_spark(spark, store, shape)
    for finding in verdict.findings[:10]:
        print(Path(finding.path).name, finding.position, finding.sentence)
    if not verdict.clean:
        report = dispatch_store(spark, store, shape)
        print(f"rebuilt {report.units} units of {report.queues} queues")
        print(f"{verify_on_spark(spark, store, shape).count} findings are left")


if __name__ == "__main__":
    main()
