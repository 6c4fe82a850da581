"""A Spark Connect server, and a cluster of each kind for the live source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.target import Target, bolide_target, java_target


@pytest.fixture(scope="session")
def connect(spark: Any) -> Iterator[str]:
    """Provide the address of a Spark Connect server in the JVM of the session; its clients need no JVM."""
    package = spark._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    service.start(spark._jsc.sc())
    yield f"sc://127.0.0.1:{service.localPort()}"
    nothing = spark._jvm.scala.Option.empty()
    service.stop(nothing, nothing)


@pytest.fixture(scope="session", params=["bolide", pytest.param("java", marks=pytest.mark.java)])
def rocketmq(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A Bolide cluster, then a Java one; the same tests run against both."""
    if request.param == "bolide":
        yield from bolide_target()
    else:
        yield from java_target(tmp_path_factory.mktemp("java"))


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test's own; the topic is not made yet."""
    return re.sub(r"\W+", "_", request.node.name)[:100]
