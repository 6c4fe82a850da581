"""A Spark session for short jobs: quiet, with this interpreter in its workers, quick to start and to end.

Used by the command line, the demo and the tests, so that they run what a user runs.
"""

from __future__ import annotations

import atexit
import logging
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.errors import SparkMissing
from bolide.spark.session.jvm import JAVA_OPTIONS, Jvm, end_at_once, is_plain, noted, temporary_options
from bolide.spark.session.jvm_launch import Kept, kept_for

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
_KEEP_MEMORY: Final = {
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
"""For workers whose tasks repeatedly allocate the same columns of some MB: glibc keeps that memory between them."""
QUICK_START: Final = {JAVA_OPTIONS: "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"}
"""For jobs of less than a minute, or whose rows do not pass through the JVM: it starts faster."""
QUIET_START: Final = {**QUICK_START, "spark.log.level": "OFF"}
"""For a command, which reports in one sentence what Spark logs in pages."""


@dataclass
class _Begun:
    """The settings of the next session, and its JVM, if it is already running."""

    wanted: dict[str, str]
    jvm: Jvm | None = None
    kept: Kept | None = None
    """Where to record how Spark's scripts started it."""


_begun: Final[list[_Begun]] = []


def begin(master: str, settings: Mapping[str, str] = MappingProxyType({}), folder: Path | None = None) -> None:
    """Start the JVM of the next session. Raises SparkMissing.

    Call it before heavy imports, which then run in parallel. An unused JVM ends with this process.
    """
    while _begun:
        _drop(_begun.pop())
    package = _package()
    # Without this Spark uses the first `python3` on the path, and refuses it if its version differs.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if not master.startswith("local"):
        end_at_once(False)
        _begun.append(_Begun({**_SETTINGS, **settings}))
        return
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="bolide-spark-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    ours = _use_home(folder / "spark-home", package)
    wanted = {**_SETTINGS, **_LOCAL, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    local = {"spark.local.dir": str(folder / "local")}
    wanted |= {**local, **settings}
    temporary = temporary_options(folder)
    wanted[JAVA_OPTIONS] = " ".join([wanted.get(JAVA_OPTIONS, ""), *map(shlex.quote, temporary)]).strip()
    begun = _Begun(wanted)
    plain = ours and not master.startswith("local-cluster") and is_plain(wanted, os.environ) and not _has_jvm()
    end_at_once(plain and bool(temporary) and local.items() <= wanted.items())  # else something would be left
    if plain and (kept := kept_for(package / "jars")) is not None:
        launch = kept.launch(archive="ArchiveClassesAtExit" not in wanted[JAVA_OPTIONS])
        if launch is not None:
            begun.jvm = Jvm(launch, wanted, folder / "jvm")
        else:
            begun.kept = kept
    _begun.append(begun)


def has_begun() -> bool:
    """True while a JVM that was started without Spark's scripts waits for its session."""
    return bool(_begun) and _begun[0].jvm is not None


def _drop(begun: _Begun) -> None:
    if begun.jvm is not None:
        begun.jvm.kill()


@atexit.register
def _drop_begun() -> None:
    while _begun:
        _drop(_begun.pop())


def _has_jvm() -> bool:
    """There was a session before: its JVM also serves the next one."""
    found: Any = sys.modules.get("pyspark")
    return found is not None and found.SparkContext._gateway is not None


def _taken(master: str, settings: Mapping[str, str], folder: Path | None) -> _Begun:
    """The started session; its JVM is running, unless PySpark has to start it."""
    if not _begun:
        begin(master, settings, folder)
    begun = _begun.pop()
    if begun.jvm is not None:
        begun.jvm.connect()
    return begun


def _note(begun: _Begun) -> None:
    """After the first start by Spark's scripts: records their command."""
    if begun.kept is not None:
        home, package = os.environ["SPARK_HOME"], str(_package())
        class_path, options = noted(begun.wanted)
        begun.kept.note(class_path.replace(f"{home}/", f"{package}/"), options)


def job_session(
    name: str,
    master: str = "local[*]",
    folder: Path | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """A session at this master, or the one that is already running. A local one keeps all its files below `folder`.

    Raises SparkMissing. Without a folder a temporary one is used and removed at exit. After `begin` its folder and
    settings apply.
    """
    begun = _taken(master, settings, folder)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(name).master(master)
    for key, value in begun.wanted.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    _note(begun)
    return session


def job_context(name: str, master: str, settings: Mapping[str, str] = MappingProxyType({})) -> SparkContext:
    """As `job_session`, for jobs that run tasks without tables: without Spark's SQL the start takes two seconds less of
    processor time. Raises SparkMissing.
    """
    begun = _taken(master, settings, None)
    from pyspark import SparkConf, SparkContext

    if master.startswith("local"):
        # Over TCP Spark's last small message to a worker waits 40 ms for an acknowledgement, in every task.
        begun.wanted |= {"spark.python.unix.domain.socket.enabled": "true", **_KEEP_MEMORY}
    conf = SparkConf().setAppName(name).setMaster(master)
    context = SparkContext.getOrCreate(conf.setAll(list(begun.wanted.items())))
    _note(begun)
    return context


def kept_here() -> Kept | None:
    """The files for this Java and this PySpark. Raises SparkMissing."""
    return kept_for(_package() / "jars")


def no_error_records() -> None:
    """Stop PySpark from writing a record of every wrong column, a trace as JSON, to standard error."""
    from pyspark.logger import PySparkLogger

    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


def _package() -> Path:
    """The folder of PySpark, without importing it, which takes long."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise SparkMissing('Spark is not installed: pip install "bolide[spark]"')
    return Path(found.origin).parent


def _use_home(home: Path, package: Path) -> bool:
    """Make a SPARK_HOME without pyspark's zip: workers then import the installed pyspark, with its byte code.

    That saves each about a second of processor time. False if the user has set SPARK_HOME.
    """
    given = os.environ.get("SPARK_HOME")
    if given is not None and Path(given).resolve() != package.resolve() and Path(given) not in _homes:
        return False
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "sbin", "jars"):
        if not (home / part).exists():
            (home / part).symlink_to(package / part)
    os.environ["SPARK_HOME"] = str(home)
    _homes.append(home)
    return True


_homes: Final[list[Path]] = []
"""The folders that sessions of this process made."""


def environment() -> dict[str, str]:
    """The environment of a process that starts a separate session: without this process's SPARK_HOME."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_HOME" or Path(value) not in _homes}
