"""Beside the package, not in it: Spark imports every top-level ``pyspark_*`` module when it looks for a format.

So `spark.read.format("rocketmq")` needs no registration call wherever Bolide is installed. Keep it tiny: it is imported
for any unknown format, and an error here would break the look-up of every Python source.
"""

from bolide.spark.data_source import RocketMQDataSource


class DefaultSource(RocketMQDataSource):
    """What Spark finds by its name, `rocketmq`."""
