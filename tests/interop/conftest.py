"""A Bolide name server and broker for the Java programs of a module."""

from collections.abc import Iterator

import pytest

from proof.interop.java_artefacts import CLIENT_VERSIONS
from proof.interop.java_processes import Java, JavaClient, wait_registered
from proof.kit.our_processes import OurBroker, OurNameServer


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    """Our name server."""
    server = OurNameServer(tmp_path_factory.mktemp("namesrv"))
    yield server
    assert server.stop() == 0, server.output()


@pytest.fixture(scope="module")
def broker(namesrv: OurNameServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    """Our broker, registered with our name server."""
    server = OurBroker(tmp_path_factory.mktemp("broker"), namesrv.address, {"flushDiskType": "ASYNC_FLUSH"})
    wait_registered(namesrv.address)
    yield server
    assert server.stop() == 0, server.output()


@pytest.fixture(
    scope="module",
    params=[(version, binary) for version in CLIENT_VERSIONS for binary in (False, True)],
    ids=lambda param: f"{param[0]}-{'binary' if param[1] else 'json'}",
)
def java(
    request: pytest.FixtureRequest,
    namesrv: OurNameServer,
    broker: OurBroker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Java]:
    version, binary = request.param
    name = f"{version.replace('.', '')}{'b' if binary else 'j'}"
    client = JavaClient(tmp_path_factory.mktemp(name), namesrv.address, version, binary_header=binary)
    yield Java(client, name, broker.port)
    client.close()
