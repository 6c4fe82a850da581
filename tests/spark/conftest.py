"""One Spark session for the whole run, a broker for each test that asks, and one of each kind for the live source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.spark.target import Target, bolide_target, java_target

# Compiling code for each query took a quarter of the tests' time, for some dozen rows each. Sessions of processes do.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local session with everything it writes in a temporary folder."""
    from bolide.spark.session.session import QUICK_START, job_session

    folder = tmp_path_factory.mktemp("spark")
    settings = {**QUICK_START, "spark.driver.memory": "1g", **INTERPRETED}
    session = job_session("bolide-tests", "local[2]", folder, settings)
    yield session
    session.stop()


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
