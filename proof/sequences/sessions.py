"""One Spark session for all sequences that run in real Spark: `local[2]`, checkpoints and files on disk."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

_QUICK = {
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.log.level": "OFF",
}
"""A session that starts quickly and runs short queries: compiling code for each costs more than it saves."""


class Session:
    """Starts with the first use."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._spark: Any = None
        self._lock = threading.Lock()
        self.alone = threading.Lock()
        """Held by the sequence that uses it: two would fight for the two cores."""

    def use(self, spark: Any) -> None:
        """Take a session that runs already."""
        self._spark = spark

    @property
    def spark(self) -> Any:
        """The session."""
        with self._lock:
            if self._spark is None:
                from bolide.spark.session.session import job_session

                self._folder = Path(tempfile.mkdtemp(prefix="sequences-spark-"))
                self._spark = job_session("sequences", "local[2]", self._folder, _QUICK)
                self._spark.sparkContext.setLogLevel("OFF")
            return self._spark

    def close(self) -> None:
        """End what `spark` began."""
        if self._folder is not None:
            self._spark.stop()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._spark = self._folder = None


SESSION = Session()
