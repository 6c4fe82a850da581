"""Beside the package, not in it: Spark imports every top-level ``pyspark_*`` module when it looks for a format."""
