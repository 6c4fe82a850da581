"""A Spark session for a job of the command line: quiet, and its workers are this very interpreter."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from bolide.spark.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def job_session(name: str, master: str) -> SparkSession:
    """A session at this master, made when there is none; raises SparkMissing."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SparkMissing('Spark is not installed: pip install "bolide[spark]"') from error
    # Without this Spark takes whatever `python3` is first on the path, and refuses it when its version differs.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
