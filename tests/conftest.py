"""For every test: says and checks which implementation runs, and fails, not skips, where Java or Spark is missing."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from bolide import _impl
from proof.interop.jvm_flags import UNVERIFIED
from proof.kit.children import ended_if_it_fails
from tests.interop.matrix_counts import Matrix
from tests.leaks import Leaks
from tests.optional_programs import SKIP_OPTIONAL
from tests.runner import again, groups, judges, long_tests, times
from tests.runner.early_worker import python_for_workers
from tests.runner.schedule import HeavyBesideLight

# Spark's JVMs of the suite live for seconds: better to start quickly than to compile well, and to take the classes of
# its jars for what they are than to verify each.
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData {UNVERIFIED}")

# A shell starts what runs in its background with SIGINT ignored, and so would be the children to which tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Compiling code for each query takes longer than running it on some dozen rows. Sessions of processes compile.
SPARK_SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.connect.grpc.binding.port": "0",
}

# A busy machine is no failure: what must be fast is measured by the bench.
settings.register_profile("bolide", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bolide")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    missing = "Java, Maven, Spark, etcd or promtool"
    parser.addoption("--skip-optional", action="store_true", help=f"skip tests whose {missing} is missing")
    parser.addoption("--long", choices=long_tests.CHOICES, default="all", help="which of the tests marked long to run")
    parser.addoption("--again", action="store_true", help="run failed tests a second time at the end, each alone")
    parser.addoption("--times", action="store_true", help="print where the time went, by layer and test")


def pytest_configure(config: pytest.Config) -> None:
    """Load the shipped plug-in where the checkout is on the path and not installed; count what interop proves."""
    if not config.pluginmanager.has_plugin("bolide") and importlib.util.find_spec("bolide.testing.pytest_plugin"):
        config.pluginmanager.import_plugin("bolide.testing.pytest_plugin")
    config.pluginmanager.register(Matrix(), "bolide-matrix")
    times.register(config)
    again.register(config)
    config.pluginmanager.register(Leaks(), "bolide-leaks")
    if config.getoption("--skip-optional"):
        os.environ[SKIP_OPTIONAL] = "1"


def pytest_report_header(config: pytest.Config) -> str:
    """The implementation under test, and where it was imported from."""
    return f"bolide: {_impl.describe()}, from {_impl.PACKAGE}"


def pytest_sessionstart(session: pytest.Session) -> None:
    """What BOLIDE_IMPL asks for is what was imported, or the run stops here."""
    wanted = _impl.wanted()
    running = {name for name in _impl.extensions() if _runs_compiled(name)}
    if wanted == "compiled" and (not running or running != set(_impl.extensions())):
        raise pytest.UsageError(f"BOLIDE_IMPL=compiled, but {len(running)} modules of {_impl.PACKAGE} run compiled")
    if wanted == "python" and running:
        raise pytest.UsageError(f"BOLIDE_IMPL=python, but {sorted(running)} run compiled")


def _runs_compiled(name: str) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return False  # the native kernel, where only Python runs
    return spec is not None and not (spec.origin or "").endswith(".py")


NEEDS = {
    "java": (lambda: all(map(shutil.which, ("java", "mvn"))), "a JDK and Maven; run tools/ensure_java.sh jdk-maven"),
    "spark": (
        lambda: importlib.util.find_spec("pyspark") is not None and _java_home_or_path(),
        "PySpark and Java 17; pip install 'bolide[spark]' and run tools/ensure_java.sh jre",
    ),
}


def _java_home_or_path() -> bool:
    return "JAVA_HOME" in os.environ or shutil.which("java") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose among the long tests, mark those that judge, then group the heavy ones."""
    long_tests.deselect(config, items)
    judges.mark(items)
    groups.assign(items)


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute groups with our scheduler; every other `--dist` is pytest-xdist's."""
    return HeavyBesideLight(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that needs Java or Spark does not pass by being left out."""
    for marker, (there, sentence) in NEEDS.items():
        if item.get_closest_marker(marker) and not there():
            if item.config.getoption("--skip-optional"):
                pytest.skip(f"needs {sentence}")
            pytest.fail(f"needs {sentence}, or leave such tests out with --skip-optional", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run a coroutine test in its own event loop, like `asyncio.run` in a plain test. pytest itself calls the rest.

    pytest rejects an awaitable that a plain test returns, and Hypothesis rejects a coroutine below `@given`.
    """
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = functools.wraps(test)(lambda **arguments: asyncio.run(test(**arguments)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """The processes of a failed test end with it."""
    with ended_if_it_fails():
        return (yield)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Provide a local Spark session whose files are in a temporary folder."""
    from bolide.spark.session.session import QUICK_START, job_session

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = python_for_workers(str(folder))
    session = job_session("bolide-tests", "local[2]", folder, {**QUICK_START, **SPARK_SETTINGS})
    yield session
    session.stop()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup() -> Generator[None, Any, Any]:
    """Those of a fixture that fails before its `yield`, too: nobody else knows them."""
    with ended_if_it_fails():
        return (yield)
