"""The JVM of a local session: started before Python imports anything, without Spark's launcher, and ended at once.

PySpark starts two shells and a first JVM to find out how to start the second. Here the command that they found is
repeated (`jvm_launch`), with the archive of classes. If settings are used that only Spark's own scripts know, or no
command was recorded yet, PySpark starts the JVM as usual.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bolide.spark.session.jvm_launch import Launch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
MEMORY: Final = "spark.driver.memory"
_MAIN: Final = "org.apache.spark.api.python.PythonGatewayServer"
_VECTORS: Final = "--add-modules=jdk.incubator.vector"
"""Used only for linear algebra, and prints a warning on every start."""
_OURS: Final = frozenset({"SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE"})
"""Set here, and by PySpark in each session."""
_THEIRS: Final = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
_PLAIN: Final = ("spark.ui.", "spark.sql.", "spark.log.", "spark.python.", "spark.local.dir", "spark.app.name",
                 "spark.master", "spark.driver.host", "spark.driver.bindAddress", "spark.default.parallelism",
                 JAVA_OPTIONS, MEMORY)  # fmt: skip
"""Settings that need neither Spark's scripts at the start nor Spark's shutdown at the end."""
_SIZE: Final = re.compile("[0-9]+[kmgKMG]")
_POLL_S: Final = 0.005
_LONGEST_S: Final = 120.0
_SOCKET_NAME: Final = 44
"""What Spark appends to its temporary folder for a socket; the name of a socket has at most 107 bytes."""

_at_once: Final[list[bool]] = []


def is_plain(settings: Mapping[str, str], environment: Mapping[str, str]) -> bool:
    """True if no file or variable of the user affects the start of a local session with these settings."""
    foreign = [name for name in environment if name.startswith("SPARK_") and name not in _OURS]
    foreign += [name for name in _THEIRS if name in environment]
    sized = _SIZE.fullmatch(settings.get(MEMORY, "1g")) is not None
    return not foreign and sized and all(key.startswith(_PLAIN) for key in settings)


def temporary_options(folder: Path) -> list[str]:
    """The option for temporary files below `folder`, which are deleted with it; empty if the path is too long."""
    target = folder / "tmp"
    if len(os.fsencode(target)) + _SOCKET_NAME > 107:
        return []
    target.mkdir(parents=True, exist_ok=True)
    return [f"-Djava.io.tmpdir={target}"]


class Jvm:
    """A JVM that is starting."""

    def __init__(self, launch: Launch, settings: Mapping[str, str], folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)  # it will contain the secret of the connection
        self._info = folder / "gateway"
        options = [f"-Xmx{settings.get(MEMORY, '1g')}", *launch.options, *shlex.split(settings.get(JAVA_OPTIONS, ""))]
        environment = {**os.environ, "PYTHONHASHSEED": "0", "SPARK_CONNECT_MODE": "0"}
        environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(self._info)
        self._process = subprocess.Popen(
            [launch.java, "-cp", launch.class_path, *options, _MAIN],
            env=environment,
            stdin=subprocess.PIPE,  # the JVM ends when this closes, so never later than this process
            preexec_fn=_ignore_interrupts,
        )

    def connect(self) -> bool:
        """Wait for it and let PySpark use it; False if it did not start, and PySpark has to start its own."""
        from pyspark import SparkContext, java_gateway

        found = self._gateway()
        self._info.unlink(missing_ok=True)
        if found is None:
            self.kill()
            return False
        launcher: Any = java_gateway  # has no types
        os.environ.update(PYSPARK_GATEWAY_PORT=str(found[0]), PYSPARK_GATEWAY_SECRET=found[1])
        try:
            gateway = launcher.launch_gateway()
        finally:
            del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
        gateway.proc = self._process
        SparkContext._ensure_initialized(gateway=gateway)
        return True

    def kill(self) -> None:
        """End it; it was not used yet."""
        _kill(self._process)

    def _gateway(self) -> tuple[int, str] | None:
        """Port and secret."""
        end = time.monotonic() + _LONGEST_S
        while not self._info.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                return None
            time.sleep(_POLL_S)
        data = self._info.read_bytes()  # it is renamed into place, so it is complete
        length = int.from_bytes(data[4:8], "big")
        return int.from_bytes(data[:4], "big"), data[8 : 8 + length].decode()


def noted(settings: Mapping[str, str]) -> tuple[str, list[str]]:
    """Class path and options of the running JVM, without those that each session sets itself."""
    from pyspark import SparkContext

    java: Any = SparkContext._jvm
    bean = java.java.lang.management.ManagementFactory.getRuntimeMXBean()
    own = {*shlex.split(settings.get(JAVA_OPTIONS, "")), _VECTORS}
    options = [str(one) for one in bean.getInputArguments()]
    return str(bean.getClassPath()), [one for one in options if one not in own and not one.startswith("-Xmx")]


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_at_once(allowed: bool) -> None:
    """Record whether `end` may kill the session that begins now."""
    _at_once[:] = [allowed]


def end(spark: SparkSession | SparkContext) -> None:
    """Stop a session whose work is done.

    Spark's own shutdown takes 1.3 s, most of it waiting. If only files in the session's temporary folder are left, the
    JVM is killed instead; its Python workers end with it, because their pipe closes.
    """
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if _at_once != [True] or process is None:
        spark.stop()
        return
    context: Any = spark if isinstance(spark, SparkContext) else spark.sparkContext
    _quiet(gateway, context._accumulatorServer)
    _kill(process)
    context._jsc = context._accumulatorServer = None
    with SparkContext._lock:
        SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    if not isinstance(spark, SparkContext):
        from pyspark.sql import SparkSession, SQLContext

        known: Any = SparkSession
        known._instantiatedSession = known._activeSession = None
        SQLContext._instantiatedContext = None


def _quiet(gateway: Any, accumulators: Any) -> None:
    """Silence PySpark's threads about a JVM that has ended: one sends it garbage collections, one listens to it."""
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

    told = gateway._gateway_client.finalizer_deque
    told.clear()
    told.append(SHUTDOWN_FINALIZER_WORKER)
    logging.getLogger().addFilter(_no_lost_command)  # the thread may be sending one right now
    accumulators.server_shutdown = True
    accumulators.handle_error = lambda *_: None


def _no_lost_command(record: logging.LogRecord) -> bool:
    return (record.module, record.funcName) != ("java_gateway", "send_command")
