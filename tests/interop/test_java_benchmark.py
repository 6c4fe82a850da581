"""RocketMQ's own benchmark programs against our broker: what they report is without a failure, and what they say that
they sent is there. One ends by itself; the others run until they are told to, so they are told once they have reported.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from proof.interop.java_artefacts import BROKER_VERSION
from proof.interop.java_processes import JavaProgram, wait_registered
from proof.interop.matrix import PROGRAM
from proof.kit.our_processes import OurBroker, OurNameServer
from proof.kit.waiting import wait_until
from proof.kit.wire import PULL_MESSAGE, Wire, pull_ext

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("java-benchmark")]

COUNT = 2000
QUERY_CONSUMER_OFFSET = 14
TERMINATED = (0, 143)
"""A JVM's exit status after SIGTERM is 143, unless the program had ended."""


def proves(name: str) -> pytest.MarkDecorator:
    return pytest.mark.matrix(feature=f"benchmark {name}", version=BROKER_VERSION, direction=PROGRAM)


@pytest.fixture(scope="module")
def broker(namesrv: OurNameServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    # A first report takes ten seconds anyway. To be asked about a message while it still answers counts as a failure.
    settings = {"flushDiskType": "ASYNC_FLUSH", "transactionCheckInterval": "5000", "transactionTimeOut": "5000"}
    server = OurBroker(tmp_path_factory.mktemp("broker"), namesrv.address, settings)
    wait_registered(namesrv.address)
    yield server
    assert server.stop() == 0, server.output()


def run_to_its_end(home: Path, namesrv: str, name: str, *words: str) -> str:
    """What a program printed; it must have ended well."""
    program = JavaProgram(home, namesrv, name, *words)
    try:
        wait_until(lambda: not program.running, f"{name} ends", 300)
        assert program.stop() == 0, program.output()
    finally:
        program.kill()
    return program.output()


def run_until_it_reports(
    home: Path, namesrv: str, name: str, *words: str, done: Callable[[str], bool] = lambda printed: True
) -> str:
    """What a program without an end printed up to its second report, and until that is `done`."""
    program = JavaProgram(home, namesrv, name, "-ri", "1000", *words)
    try:
        wait_until(lambda: program.output().count("Current Time:") >= 2 or not program.running, f"{name} reports twice")
        wait_until(lambda: done(program.output()) or not program.running, f"{name} has done its work")
        assert program.running, program.output()
        assert program.stop() in TERMINATED, program.output()
    finally:
        program.kill()
    return program.output()


def figures(printed: str, name: str) -> list[int]:
    """The values of a figure in all reports."""
    found = [int(value) for value in re.findall(rf"(?<!\w){re.escape(name)}: +(\d+)", printed)]
    assert found, f"no {name!r} in {printed}"
    return found


def ends(broker: OurBroker, topic: str) -> dict[int, int]:
    """By queue: the offset after the last message."""
    with Wire(broker.port) as wire:
        found: dict[int, int] = {}
        while True:
            answer = wire.ask(PULL_MESSAGE, pull_ext(topic, len(found), 1 << 40))
            if "maxOffset" not in answer.ext:
                return found  # a queue the topic does not have
            found[len(found)] = int(answer.ext["maxOffset"])


@proves("Producer")
def test_producer(namesrv: OurNameServer, broker: OurBroker, tmp_path: Path) -> None:
    words = ("-t", "BenchPlain", "-w", "4", "-q", str(COUNT), "-k", "true", "-l", "3")
    printed = run_to_its_end(tmp_path, namesrv.address, "Producer", *words)
    assert figures(printed, "Send Total") == [COUNT], printed
    assert set(figures(printed, "Send Failed") + figures(printed, "Response Failed")) == {0}, printed
    assert sum(ends(broker, "BenchPlain").values()) == COUNT


@proves("Producer")
def test_producer_with_delays_and_compression(namesrv: OurNameServer, broker: OurBroker, tmp_path: Path) -> None:
    words = ("-t", "BenchDelayed", "-w", "4", "-q", str(COUNT), "-d", "true", "-e", "1", "-c", "true", "-ch", "64")
    printed = run_to_its_end(tmp_path, namesrv.address, "Producer", *words)
    assert set(figures(printed, "Send Failed")) == {0}, printed
    wait_until(lambda: sum(ends(broker, "BenchDelayed").values()) == COUNT, f"{COUNT} delayed messages are delivered")


@proves("BatchProducer")
def test_batch_producer(namesrv: OurNameServer, broker: OurBroker, tmp_path: Path) -> None:
    words = ("-t", "BenchBatch", "-w", "1", "-b", "8", "-k", "true", "-l", "3", "-p", "100")
    printed = run_until_it_reports(tmp_path, namesrv.address, "BatchProducer", *words)
    assert set(figures(printed, "Send Failed") + figures(printed, "Send Message Failed")) == {0}, printed
    assert min(figures(printed, "Send MPS")) > 0
    assert sum(ends(broker, "BenchBatch").values()) > 0


@proves("Consumer")
def test_consumer(namesrv: OurNameServer, broker: OurBroker, tmp_path: Path) -> None:
    run_to_its_end(tmp_path, namesrv.address, "Producer", "-t", "BenchConsumed", "-w", "2", "-q", str(COUNT))

    def committed() -> dict[int, int]:
        found: dict[int, int] = {}
        with Wire(broker.port) as wire:
            for queue_id in ends(broker, "BenchConsumed"):
                ext = {"consumerGroup": "bench", "topic": "BenchConsumed", "queueId": str(queue_id)}
                found[queue_id] = int(wire.ask(QUERY_CONSUMER_OFFSET, ext).ext.get("offset", "0"))
        return found

    def consumed(printed: str) -> bool:
        return sum(committed().values()) >= COUNT

    words = ("-t", "BenchConsumed", "-g", "bench")
    printed = run_until_it_reports(tmp_path, namesrv.address, "Consumer", *words, done=consumed)
    assert set(figures(printed, "Consume Fail")) == {0}, printed
    assert committed() == ends(broker, "BenchConsumed") and sum(committed().values()) == COUNT


@proves("TransactionProducer")
def test_transaction_producer(namesrv: OurNameServer, broker: OurBroker, tmp_path: Path) -> None:
    """A fifth is left open; of those, the first check decides most and rolls some back."""
    words = ("-t", "BenchTransactions", "-w", "2", "-i", "5", "-s", "256", "-su", "0.2", "-cu", "0.2", "-cr", "0.2")
    printed = run_until_it_reports(
        tmp_path, namesrv.address, "TransactionProducer", *words, done=lambda said: max(figures(said, "Check")) > 0
    )
    assert set(figures(printed, "Send Failed")) == {0}, printed
    assert max(figures(printed, "Check")) > 0, printed
    assert set(figures(printed, "UnexpectedCheck") + figures(printed, "DuplicatedCheck")) == {0}, printed
    assert sum(ends(broker, "BenchTransactions").values()) > 0
