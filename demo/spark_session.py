"""The demo's Spark session, in a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bolide.spark.session.session import QUICK_START, job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(folder: Path, cores: int = 2) -> SparkSession:
    """Start Spark with everything it writes below `folder`."""
    return job_session("bolide-demo", f"local[{cores}]", folder, {**QUICK_START, "spark.driver.memory": "1g"})
