"""A SPARK_HOME without Spark's Python: processes import PySpark from where it is installed, with its byte code.

From the zip of a whole one that takes a second of processor time instead of a quarter, and Spark gives the Python
process of a stream ten seconds to call back, whatever else the machine does.
"""

from __future__ import annotations

from pathlib import Path


def spark_home(home: Path) -> Path:
    """Make one in a folder that is not there yet."""
    import pyspark

    home.mkdir()
    for part in ("bin", "sbin", "jars"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    return home
