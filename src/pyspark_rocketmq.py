"""Beside the package, not in it: Spark imports every top-level ``pyspark_*`` module when it looks for a format.

So `spark.read.format("rocketmq")` needs no registration call wherever Bolide is installed. Keep it tiny: it is imported
for any unknown format, and an error here would break the look-up of every Python source.
"""

from bolide.spark.missing_source import missing_source, require

try:
    require("numpy", "pyarrow")  # which the source imports when it reads or writes
    from bolide.spark.data_source import RocketMQDataSource as DefaultSource
except Exception as error:  # a requirement that is missing or does not fit raises anything
    DefaultSource = missing_source("rocketmq", error)  # type: ignore[misc, assignment] # Spark looks for this name only
