"""One Spark session for the whole run, a broker for each test that asks, and one of each kind for the live source."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.target import Target, bolide_target, java_target


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with everything it writes in a temporary folder."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    import pyspark

    home = folder / "spark-home"
    home.mkdir()
    for name in ("bin", "sbin", "jars"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    os.environ["SPARK_HOME"] = str(home)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bolide-tests")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["bolide", pytest.param("java", marks=pytest.mark.java)])
def rocketmq(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A cluster of ours, then one of Java's; the same tests run against both."""
    if request.param == "bolide":
        yield from bolide_target()
    else:
        yield from java_target(tmp_path_factory.mktemp("java"))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own; the topic is not made yet."""
    return re.sub(r"\W+", "_", request.node.name)[:100]
