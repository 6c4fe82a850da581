"""A Spark session for short jobs: quiet, and with this interpreter for its workers.

The command line, the demo and the tests use it, so that their behaviour is the same as for users.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bolide.spark.session.class_archive import archive_of, link_home, spark_package

if TYPE_CHECKING:
    from types import FrameType

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
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
    "spark.python.daemon.module": "bolide.spark.session.daemon",
}
_KEEP_MEMORY: Final = {
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
"""Environment of workers whose tasks repeatedly use columns of a few MB: glibc retains that memory between tasks."""
QUICK_START: Final = {JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"}
"""Settings for a faster start, for jobs of less than a minute or whose rows do not pass through the JVM."""
QUIET_START: Final = {**QUICK_START, "spark.log.level": "OFF"}
"""Settings for commands, which report errors in one sentence instead of Spark's logs."""
_SOCKET_NAME: Final = 44
"""Number of bytes that Spark appends to its temporary folder for a socket, whose name may have 107 bytes."""

_homes: Final[list[Path]] = []
"""SPARK_HOME folders that sessions of this process created or used."""


def _settings(master: str, settings: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    """Return all settings of a session, and set the environment variables that it needs. Raises `SparkMissing` if
    Spark is not installed."""
    package = spark_package()
    # Without this, Spark runs the first `python3` on the path, and rejects it if its version differs.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not master.startswith("local"):
        return {**_SETTINGS, **settings}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="bolide-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = archive_of(package)
    prepared = archive is not None and archive.exists()
    ours = _use_home(archive.home if archive is not None and prepared else folder / "spark-home", package)
    wanted = {**_SETTINGS, **_LOCAL, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    wanted |= {"spark.local.dir": str(folder / "local"), **settings}
    options = [wanted.get(JAVA_OPTIONS, ""), *map(shlex.quote, temporary_options(folder))]
    if archive is not None and prepared and ours:
        options.append(archive.options())
    wanted[JAVA_OPTIONS] = " ".join(options).strip()
    return wanted


def temporary_options(folder: Path) -> list[str]:
    """Return the JVM options for temporary files below `folder`, or none if the path is too long for a socket."""
    target = folder / "tmp"
    if len(os.fsencode(target)) + _SOCKET_NAME > 107:
        return []
    target.mkdir(parents=True, exist_ok=True)
    return [f"-Djava.io.tmpdir={target}"]


def job_session(
    name: str,
    master: str = "local[*]",
    folder: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Return a session at this master, or the running session. A local session writes all its files below `folder`.

    Without a folder, uses a temporary folder and removes it at exit. Raises `SparkMissing` if Spark is not installed.
    """
    wanted = _settings(master, settings, folder)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    keep_interrupts()
    return session


def job_context(name: str, master: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkContext:
    """Like `job_session`, but without Spark SQL, for jobs that run tasks and do not use tables. This saves two seconds
    of processor time at startup. Raises `SparkMissing` if Spark is not installed."""
    wanted = _settings(master, settings, None)
    from pyspark import SparkConf, SparkContext

    if master.startswith("local"):
        # Over TCP, the last small message to a worker waits 40 ms for an acknowledgement in every task.
        wanted |= {"spark.python.unix.domain.socket.enabled": "true", **_KEEP_MEMORY}
    conf = SparkConf().setAppName(name).setMaster(master)
    context = SparkContext.getOrCreate(conf.setAll(list(wanted.items())))
    keep_interrupts()
    return context


def keep_interrupts() -> None:
    """Let Ctrl-C raise KeyboardInterrupt even if Spark fails to cancel its jobs, as its handler does since 4.2."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or getattr(handler, "__module__", "") != "pyspark.core.context":
        return
    if threading.current_thread() is not threading.main_thread():
        return
    cancel = handler

    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            cancel(number, frame)
        finally:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)


def no_error_records() -> None:
    """Stop PySpark from writing a JSON trace of every wrong column to standard error."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _use_home(home: Path, package: Path) -> bool:
    """Set SPARK_HOME to `home` (see `link_home`), or return False if the user has set another."""
    given = os.environ.get("SPARK_HOME")
    if given is not None and Path(given).resolve() != package.resolve() and Path(given) not in _homes:
        return False
    link_home(home, package)
    os.environ["SPARK_HOME"] = str(home)
    _homes.append(home)
    return True


def environment() -> dict[str, str]:
    """Return the environment for a process with a separate session, without this process's SPARK_HOME."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_HOME" or Path(value) not in _homes}
