"""A wheel with one plug-in of each kind, installed beside a real broker process and a real client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bolide.client import Message
from bolide.client.consuming.strategies import find_strategy
from bolide.client.messages.errors import ResponseError
from bolide.client.messages.subscription import selector
from bolide.plugins import HOOKS
from bolide.remoting import codes
from bolide.transport.client import ClientConnection
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import PATIENCE, until
from tests.client.patient import Admin, Producer, PushConsumer
from tests.node.brokers import pull_request, send_request
from tests.plugin_wheel import install_plugin

pytestmark = pytest.mark.slow  # builds a wheel and starts a cluster of processes

PACKAGE = "flights-for-bolide 1.2"
KNOWN_HOOKS = ", ".join([*HOOKS.built_in, "guard"])


def path_with(folder: Path) -> str:
    """PYTHONPATH of a child process: this folder before what the tests themselves run on."""
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built by pip as for any user and installed into a folder of its own."""
    return install_plugin(tmp_path_factory.mktemp("plugin"))


@pytest.fixture
def imported(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The wheel on this process's path, and gone from it again."""
    monkeypatch.syspath_prepend(installed)
    yield installed
    for name in [name for name in sys.modules if name.split(".")[0] == "flights_for_bolide"]:
        del sys.modules[name]


class Cluster:
    """A name server and a broker with the wheel on their path."""

    def __init__(self, home: Path, wheel: Path, **settings: str) -> None:
        self.home = home
        self._environment = {"PYTHONPATH": path_with(wheel), "HOME": str(home)}
        self.namesrv = OurNameServer(home, environment=self._environment)
        self.namesrv_addr = self.namesrv.address
        self._settings = {
            "brokerName": "broker-with-plug-ins",
            "flushDiskType": "ASYNC_FLUSH",
            "enablePropertyFilter": "true",
            **settings,
        }
        self.broker = self.start_broker()

    def start_broker(self) -> OurBroker:
        return OurBroker(self.home, self.namesrv_addr, self._settings, environment=self._environment)

    def stop(self) -> None:
        for process in (self.broker, self.namesrv):
            assert process.stop() == 0, process.output()


@pytest.fixture
def cluster(tmp_path: Path, installed: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, installed, dispatchers="journal", brokerHooks="guard")
    yield made
    made.stop()


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


async def test_plugins_work_in_a_running_cluster(cluster: Cluster, imported: Path) -> None:
    journal, seen = cluster.home / "journal", []
    async with Producer("flights", cluster.namesrv_addr) as producer:
        for city in ("Hangzhou", "Berlin", "Hanoi"):
            message = Message("Flights", city.encode(), properties={"city": city})
            assert (await producer.send(message)).queue_offset >= 0
        with pytest.raises(ResponseError, match="the gate of Flights is closed") as refused:
            await producer.send(Message("Flights", b"never", properties={"gate": "closed", "city": "Hanoi"}))
        assert refused.value.code == codes.MESSAGE_ILLEGAL
        consumer = PushConsumer("towers", cluster.namesrv_addr, start_from="first", strategy="FIRST_TAKES_ALL")
        consumer.subscribe("Flights", selector("BEGINS", "Han"), lambda message: seen.append(message.body))
        async with consumer:
            await until(lambda: len(seen) == 2, "what the expression selects")
            # Now its pulls are held: the expression decides on what arrives, too.
            await producer.send(Message("Flights", b"Hanover", properties={"city": "Hanover"}))
            await producer.send(Message("Flights", b"Rome", properties={"city": "Rome"}))
            await until(lambda: len(seen) == 3, "what arrives at a held pull")
    await until(lambda: len(lines_of(journal / "lines")) >= 5, "the journal")
    assert sorted(seen) == [b"Hangzhou", b"Hanoi", b"Hanover"]
    bodies = [line.split()[2] for line in lines_of(journal / "lines") if line.startswith("Flights ")]
    assert bodies == ["Hangzhou", "Berlin", "Hanoi", "Hanover", "Rome"]
    guarded = lines_of(cluster.home / "guard.log")
    assert sum(line.startswith("send Flights 0 ") for line in guarded) == 5
    assert "send Flights 13 None" in guarded
    assert any(line.startswith("pull Flights 0 ") and "Hangzhou" in line for line in guarded)


async def test_a_broken_or_stuck_dispatcher_stops_nobody_and_misses_nothing(cluster: Cluster) -> None:
    journal = cluster.home / "journal"

    async def send(*bodies: bytes) -> None:
        async with Producer("flights", cluster.namesrv_addr) as producer:
            for body in bodies:
                await producer.send(Message("Flights", body))

    async def journaled(count: int) -> None:
        await until(lambda: len(lines_of(journal / "lines")) == count, f"{count} lines in the journal")

    (journal / "broken").touch()
    await send(b"one", b"two")
    await until(lambda: "the journal is broken" in cluster.broker.output(), "the first call, which fails")
    (journal / "broken").unlink()
    await journaled(2)
    (journal / "stuck").touch()
    await send(b"three")
    assert cluster.broker.stop() == 0, cluster.broker.output()
    assert "the dispatcher journal failed at offset 0 of the log: RuntimeError: the journal is broken" in (
        cluster.broker.output()
    )
    (journal / "stuck").unlink()
    cluster.broker = cluster.start_broker()
    await send(b"four")
    await journaled(4)
    assert [line.split()[2] for line in lines_of(journal / "lines")] == ["one", "two", "three", "four"]


async def test_topics_pick_them_too(tmp_path: Path, installed: Path) -> None:
    """A dispatcher and a hook named by attributes: for these topics only, at once, and after a restart as well."""
    cluster = Cluster(tmp_path, installed)
    journal = tmp_path / "journal"
    picks = "+bolide.dispatchers=journal,+bolide.hooks=guard"

    async def send(*bodies: bytes) -> None:
        async with Producer("flights", cluster.namesrv_addr) as producer:
            for topic in ("Flights", "Trains"):
                for body in bodies:
                    await producer.send(Message(topic, body))
            with pytest.raises(ResponseError, match="the gate of Flights is closed"):
                await producer.send(Message("Flights", b"never", properties={"gate": "closed"}))
            await producer.send(Message("Trains", b"open", properties={"gate": "closed"}))

    async with Admin(cluster.namesrv_addr) as admin:
        await admin.create_topic("Trains", queues=1)
        with pytest.raises(ResponseError, match="the dispatcher 'search' is unknown: use one of journal") as refused:
            await admin.create_topic("Flights", queues=1, attributes="+bolide.dispatchers=journal;search")
        assert refused.value.code == codes.SYSTEM_ERROR
        await admin.create_topic("Flights", queues=1, attributes=picks)
    await send(b"one", b"two")
    await until(lambda: len(lines_of(journal / "lines")) == 2, "the journal of the topic")
    assert cluster.broker.stop() == 0, cluster.broker.output()
    cluster.broker = cluster.start_broker()
    await send(b"three")
    await until(lambda: len(lines_of(journal / "lines")) == 3, "the journal after the restart")
    async with Admin(cluster.namesrv_addr) as admin:
        await admin.create_topic("Flights", queues=1, attributes="-bolide.dispatchers,-bolide.hooks", wait=False)
    async with Producer("flights", cluster.namesrv_addr) as producer:
        await producer.send(Message("Flights", b"four", properties={"gate": "closed"}))
    cluster.stop()
    assert lines_of(journal / "lines") == ["Flights 0 one", "Flights 1 two", "Flights 2 three"]
    assert {line.split()[1] for line in lines_of(tmp_path / "guard.log")} == {"Flights"}


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("dispatchers=search", "the dispatcher 'search' is unknown: use one of journal"),
        ("brokerHooks=guard;audit", "the broker hook 'audit' is unknown: use one of " + KNOWN_HOOKS),
    ],
)
def test_an_unknown_name_stops_the_start_and_lists_the_known(
    tmp_path: Path, installed: Path, setting: str, sentence: str
) -> None:
    command = [sys.executable, "-m", "bolide.cli", "broker", "--listen", "127.0.0.1:0", "--store", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": path_with(installed)}
    done = subprocess.run(
        [*command, "--set", setting], env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


async def test_an_unknown_expression_type_is_answered_with_the_known_ones(cluster: Cluster) -> None:
    client = await ClientConnection.connect(cluster.broker.address, PATIENCE)
    try:
        assert (await client.request(send_request(), PATIENCE)).code == 0
        for _ in range(2):
            answer = await client.request(pull_request(expressionType="XPATH", subscription="//city"), PATIENCE)
            assert answer.code == codes.SUBSCRIPTION_PARSE_FAILED
            assert "'XPATH' is unknown: use one of TAG, SQL92, BEGINS" in str(answer.remark)
        answer = await client.request(pull_request(expressionType="BEGINS", subscription="1"), PATIENCE)
        assert answer.code == codes.SUBSCRIPTION_PARSE_FAILED
        assert "'1' is no beginning of a city" in str(answer.remark)
    finally:
        client.close()
        await client.wait_closed()


def test_the_strategy_is_found_by_name(imported: Path) -> None:
    assert find_strategy("FIRST_TAKES_ALL")("g", "a", [], ["a"]) == []


@pytest.mark.parametrize("verb", ["version", "doctor"])
def test_the_command_line_lists_them(installed: Path, verb: str) -> None:
    environment = {**os.environ, "PYTHONPATH": path_with(installed)}
    command = [sys.executable, "-m", "bolide.cli", verb, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert PACKAGE in done.stdout, done.stderr
    shown = json.loads(done.stdout)
    text = json.dumps(shown)
    for name in ("journal", "BEGINS", "FIRST_TAKES_ALL", "guard", "tally"):
        assert name in text
