"""Beside the package, not in it: Spark takes one `DefaultSource` of each top-level ``pyspark_*`` module it finds.

So `spark.read.format("rocketmq-store")` needs no registration call; `pyspark_rocketmq` does the same for clusters.
"""

from bolide.spark.store.store_source import RocketMQStoreDataSource


class DefaultSource(RocketMQStoreDataSource):
    """What Spark finds by its name, `rocketmq-store`."""
