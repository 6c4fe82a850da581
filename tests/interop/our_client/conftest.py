"""Java's name server and broker, one pair for each version and run, for tests of our client."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.interop.our_client.java_cluster import JavaCluster
from tests.interop.our_client.versions import each_version


@pytest.fixture(scope="session", params=each_version("our-client"))
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """The pair of one version."""
    found = JavaCluster(tmp_path_factory.mktemp(f"java-{request.param}"), request.param)
    yield found
    found.stop()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return re.sub(r"\W+", "_", request.node.name.removeprefix("test_")).strip("_")
