"""The bench's own programs: what the generator counts is what a server answered."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.generator import Measurement, Shape, generate
from bench.run import Case
from bench.servers import NullServer

from tests.interop.our_processes import OurBroker
from tests.interop.records import stored
from tests.interop.wire import PULL_MESSAGE, SUCCESS, Wire, pull_ext

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="the bench is built with a C compiler")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    # The generator counts what is refused, and does not send it again.
    settings = {"flushDiskType": "ASYNC_FLUSH", "brokerFastFailureEnable": "false"}
    server = OurBroker(tmp_path_factory.mktemp("broker"), "", settings)
    yield server
    server.stop()


@needs_compiler
def test_against_the_null_server(tmp_path: Path) -> None:
    null = NullServer(tmp_path)
    try:
        seen = generate(null.port, Shape(8, 32), 128, 240.0, count=5000)
    finally:
        null.kill()
    assert 5000 <= seen.count <= 5000 + 8 * 32  # what comes in the last read is counted too
    assert (seen.refused, seen.codes) == (0, {"0": seen.count})
    assert 0 < seen.p50_us <= seen.p99_us <= seen.max_us


@needs_compiler
def test_what_it_sent_is_stored_and_pulled(broker: OurBroker) -> None:
    sent = generate(broker.port, Shape(4, 1), 100, 240.0, count=2000, topic="counted")
    assert 2000 <= sent.count <= 2004
    assert sent.codes == {"0": sent.count}
    kept = 0
    with Wire(broker.port) as wire:
        answer = wire.ask(PULL_MESSAGE, pull_ext("counted", 0, 0))
        assert answer.code == SUCCESS
        message = stored(answer.body)[0]
        for queue_id in range(4):
            kept += int(wire.ask(PULL_MESSAGE, pull_ext("counted", queue_id, 1 << 40)).ext["maxOffset"])
    assert 0 <= kept - sent.count <= 4  # what was in flight at the end is stored and not counted
    assert len(message.body) == 100
    assert {"KEYS", "UNIQ_KEY", "TAGS", "WAIT"} <= message.properties.keys()
    pulled = generate(broker.port, Shape(4, 1), 100, 240.0, count=40, topic="counted", mode="pull")
    assert pulled.count >= 40 * 32 and pulled.refused == 0


@needs_compiler
def test_refused_sends_are_not_counted(broker: OurBroker) -> None:
    with pytest.raises(SystemExit, match="refused"):
        generate(broker.port, Shape(1, 1), 10, 240.0, count=3, topic="SCHEDULE_TOPIC_XXXX")


def measured(rate: float) -> Measurement:
    return Measurement(1, 1.0, rate, 1, 2, 3, 0, 0.1, {"0": 1})


def test_a_ratio_is_the_median_over_rounds_and_the_ceiling_is_told() -> None:
    case = Case(Shape.parse("8x32"), 128, "async", ceiling=1000.0)
    case.rounds = {"java": [measured(r) for r in (100, 200, 400)], "bolide": [measured(r) for r in (300, 810, 820)]}
    case.rounds["before"] = [measured(r) for r in (150, 900, 410)]
    assert case.ratio("java") == 3.0
    assert case.ratio("before") == 2.0
    assert case.generator_bound("bolide") and not case.generator_bound("java")
