"""A name server and a broker of ours for the Java programs of a module, and the matrix of what the run has proven."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.interop.java_artefacts import CLIENT_VERSIONS
from tests.interop.java_processes import Java, JavaClient, is_registered
from tests.interop.matrix import Cell, as_text, cells_of
from tests.interop.our_processes import OurBroker, OurNameServer
from tests.interop.processes import until


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
    until(lambda: is_registered(namesrv.address), 10, f"the broker registers with {namesrv.address}")
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


class Matrix:
    """Counts by cell what passed and what failed; prints it when the run is over."""

    def __init__(self) -> None:
        self.cells: dict[str, list[Cell]] = {}
        self.passed: Counter[Cell] = Counter()
        self.failed: Counter[Cell] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.cells = {item.nodeid: found for item in items if (found := cells_of(item))}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            (self.passed if report.passed else self.failed).update(self.cells.get(report.nodeid, ()))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.passed or self.failed:
            terminalreporter.section("compatibility matrix")
            for line in as_text(self.passed, self.failed):
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    """Count cells where the tests are run; with several workers nobody sees them all, and nothing is printed."""
    if not config.pluginmanager.has_plugin("bolide-matrix"):
        config.pluginmanager.register(Matrix(), "bolide-matrix")
