"""Beside the package, not in it: Spark takes one `DefaultSource` of each top-level ``pyspark_*`` module it finds.

So `spark.read.format("rocketmq-store")` needs no registration call; `pyspark_rocketmq` does the same for clusters.
"""

from bolide.spark.missing_source import missing_source

try:
    from bolide.spark.store.store_source import RocketMQStoreDataSource as DefaultSource
except Exception as error:  # a requirement that is missing or does not fit raises anything
    DefaultSource = missing_source("rocketmq-store", error)  # type: ignore[misc, assignment] # as in `pyspark_rocketmq`
