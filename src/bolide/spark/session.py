"""A Spark session for short jobs: quiet, its workers this very interpreter, and quick to start.

Used by the command line, the demo and the tests, so that what they show is what a user gets.
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bolide.spark.errors import SparkMissing

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
}
QUICK_START: Final = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"}
"""For jobs of less than a minute, or whose rows do not pass through the JVM: it starts in less time."""
QUIET_START: Final = {**QUICK_START, "spark.log.level": "OFF"}
"""For a command, which tells in one sentence what Spark logs in pages."""


def job_session(
    name: str,
    master: str = "local[*]",
    folder: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """A session at this master, or the one that runs already. A local one keeps all its files below `folder`.

    Raises SparkMissing. Without a folder a temporary one is used and removed at exit.
    """
    wanted = _prepared(master, folder)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**wanted, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def job_context(name: str, master: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkContext:
    """As `job_session`, for jobs that run tasks and know no tables: without Spark's SQL it starts in two seconds less
    of processor time. Raises SparkMissing.
    """
    wanted = _prepared(master, None)
    from pyspark import SparkConf, SparkContext

    if master.startswith("local"):
        # Over TCP the last small thing that Spark tells a worker waits 40 ms for an acknowledgement, with every task.
        wanted["spark.python.unix.domain.socket.enabled"] = "true"
    conf = SparkConf().setAppName(name).setMaster(master)
    return SparkContext.getOrCreate(conf.setAll(list({**wanted, **settings}.items())))


def no_error_records() -> None:
    """PySpark writes a record of every wrong column, a trace as JSON, to standard error: not any more."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _prepared(master: str, folder: Path | None) -> dict[str, str]:
    """What every session of ours is told; sets what Spark reads from the environment."""
    try:
        import pyspark
    except ImportError as error:
        raise SparkMissing('Spark is not installed: pip install "bolide[spark]"') from error
    # Without this Spark takes whatever `python3` is first on the path, and refuses it when its version differs.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    wanted = dict(_SETTINGS)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="bolide-spark-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        _use_home(folder / "spark-home", Path(pyspark.__file__).parent)
        wanted |= _LOCAL
        wanted |= {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    return wanted


def _use_home(home: Path, package: Path) -> None:
    """Let SPARK_HOME hold no zip of pyspark: workers then import it from where it is installed, with its byte code.

    That saves each about a second of processor time. A SPARK_HOME that is set already is the user's own.
    """
    given = os.environ.get("SPARK_HOME")
    if given is not None and Path(given).resolve() != package.resolve():
        return
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "sbin", "jars"):
        if not (home / part).exists():
            (home / part).symlink_to(package / part)
    os.environ["SPARK_HOME"] = str(home)
