"""The bench's own programs: what the generator counts is what a server answered, and what a broker has kept."""

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.loads.generator import Load, Measurement, Shape, generate, run_load
from bench.servers.servers import NullServer
from bench.servers.stopping import Failed

from proof.kit.our_processes import OurBroker
from proof.kit.small import NEVER_BUSY
from proof.kit.wire import PULL_MESSAGE, SUCCESS, Wire, pull_ext
from proof.reader.frames import frame, header
from proof.reader.records import Record, read_records

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="the bench is built with a C compiler")
QUEUES = 4
LIMIT = 240.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    # The generator counts what is refused, and does not send it again.
    settings = {"flushDiskType": "ASYNC_FLUSH", "enablePropertyFilter": "true", **NEVER_BUSY}
    server = OurBroker(tmp_path_factory.mktemp("broker"), "", settings)
    yield server
    server.stop()


@pytest.fixture
def null(tmp_path: Path) -> Iterator[NullServer]:
    server = NullServer(tmp_path, 300)
    yield server
    server.kill()


def kept(broker: OurBroker, topic: str) -> int:
    """Messages that a topic has."""
    with Wire(broker.port) as wire:
        ends = [wire.ask(PULL_MESSAGE, pull_ext(topic, queue, 1 << 40)).ext["maxOffset"] for queue in range(QUEUES)]
    return sum(map(int, ends))


def first_messages(broker: OurBroker, topic: str, queue: int = 0) -> list[Record]:
    """The oldest messages of a queue."""
    with Wire(broker.port) as wire:
        answer = wire.ask(PULL_MESSAGE, pull_ext(topic, queue, 0))
    assert answer.code == SUCCESS
    return read_records(answer.body)


def test_against_the_null_server(null: NullServer) -> None:
    seen = generate(null.port, Shape(8, 32), 128, LIMIT, count=5000)
    assert 5000 <= seen.count <= 5000 + 8 * 32  # what comes in the last read is counted too
    assert (seen.refused, seen.codes) == (0, {"0": seen.count})
    assert 0 < seen.p50_us <= seen.p99_us <= seen.max_us


@pytest.mark.parametrize("count", [32, 1024])
def test_pulls_of_the_null_server_bring_as_many_messages_as_they_ask_for(null: NullServer, count: int) -> None:
    seen = run_load(null.port, Load(Shape(8, 1), "pull", options={"pull": count}), LIMIT, count=200)
    assert (seen.count, seen.scanned) == (seen.answered * count,) * 2
    assert seen.bytes_per_second * seen.seconds == pytest.approx(seen.count * 300, rel=0.1)


def test_the_null_server_outlives_a_peer_that_leaves_with_answers_on_the_way(null: NullServer) -> None:
    pull = frame(header(PULL_MESSAGE, pull_ext("T", 0, 0, 1024)))
    with socket.create_connection(("127.0.0.1", null.port)) as peer:
        peer.sendall(pull * 200)  # more than the sockets hold
        peer.shutdown(socket.SHUT_WR)
        assert peer.recv(1)
    assert generate(null.port, Shape(1, 1), 128, LIMIT, count=10).count >= 10
    assert null.running


def test_batches_and_transactions_of_the_null_server_count_their_messages(null: NullServer) -> None:
    batches = run_load(null.port, Load(Shape(2, 2), options={"batch": 16}), LIMIT, count=100)
    assert batches.count == batches.answered * 16
    ends = run_load(null.port, Load(Shape(2, 1), "transaction"), LIMIT, count=100)
    halves = ends.codes["0"] - ends.count  # each has an answer of its own
    assert ends.count == ends.answered and 0 <= halves - ends.count <= 2


def test_generated_messages_are_stored_and_pulled(broker: OurBroker) -> None:
    sent = generate(broker.port, Shape(4, 1), 100, LIMIT, count=2000, topic="counted")
    assert 2000 <= sent.count <= 2004
    assert sent.codes == {"0": sent.count}
    assert 0 <= kept(broker, "counted") - sent.count <= 4  # what was in flight at the end is stored and not counted
    message = first_messages(broker, "counted")[0]
    assert len(message.body) == 100
    assert {"KEYS", "UNIQ_KEY", "TAGS", "WAIT"} <= message.properties.keys()
    pulled = generate(broker.port, Shape(4, 1), 100, LIMIT, count=40, topic="counted", mode="pull")
    assert pulled.count >= 40 * 32 and pulled.refused == 0


def looked_into(broker: OurBroker, topic: str, body: int, **options: object) -> Measurement:
    look = Load(Shape(4, 1), "pull", topic=topic, options={"body-check": body, **options})
    return run_load(broker.port, look, LIMIT, count=60)


def test_a_batch_is_stored_as_its_messages(broker: OurBroker) -> None:
    sent = run_load(broker.port, Load(Shape(2, 2), body=60, topic="batched", options={"batch": 16}), LIMIT, count=100)
    assert sent.count == sent.answered * 16
    assert 0 <= kept(broker, "batched") - sent.count <= 4 * 16
    seen = looked_into(broker, "batched", 60)
    assert seen.count >= 60 and seen.wrong == 0
    messages = first_messages(broker, "batched")
    assert len({one.properties["UNIQ_KEY"] for one in messages}) == len(messages)


def test_a_message_that_is_not_what_was_asked_for_is_counted_as_wrong(broker: OurBroker) -> None:
    run_load(broker.port, Load(Shape(4, 1), body=50, topic="checked"), LIMIT, count=400)
    assert looked_into(broker, "checked", 50, expect="TagA").wrong == 0
    other_size, other_tag = looked_into(broker, "checked", 51), looked_into(broker, "checked", 50, expect="t3")
    assert other_size.wrong == other_size.count > 0
    assert other_tag.wrong == other_tag.count > 0


@pytest.mark.parametrize(("expression", "subscription"), [("TAG", "t3"), ("SQL92", "n = 3")])
def test_a_filter_lets_one_message_in_ten_pass(broker: OurBroker, expression: str, subscription: str) -> None:
    topic = f"tagged{expression}"
    run_load(broker.port, Load(Shape(1, 16), topic=topic, options={"tags": 10}), LIMIT, count=4000)
    filters = {"expression": expression, "subscription": subscription, "expect": "t3"}
    seen = looked_into(broker, topic, 128, **filters)
    assert (seen.wrong, seen.refused) == (0, 0)
    assert seen.count / seen.scanned == pytest.approx(0.1, rel=0.02)


def test_a_transaction_is_visible_after_its_commit(broker: OurBroker) -> None:
    done = run_load(broker.port, Load(Shape(4, 1), "transaction", topic="traded"), LIMIT, count=300)
    assert done.refused == 0 and done.count >= 300
    assert 0 <= kept(broker, "traded") - done.count <= 4


def test_follower_waits_for_all_due_messages(broker: OurBroker) -> None:
    due = int(time.time()) + 2
    load = Load(Shape(2, 8), topic="timed", options={"deliver-at": due * 1000})
    sent = run_load(broker.port, load, LIMIT, count=500)
    follow = Load(Shape(1, 1), "follow", topic="timed", options={"due": due * 1000})
    seen = run_load(broker.port, follow, LIMIT, count=sent.all_count)
    assert seen.all_count >= sent.all_count >= 500
    assert seen.first_ms <= seen.half_ms <= seen.last_ms
    assert seen.first_ms >= 0  # none comes before it is due


def test_delayed_messages_come_after_their_level(broker: OurBroker) -> None:
    began = time.time()
    sent = run_load(broker.port, Load(Shape(2, 8), topic="delayed", options={"delay": 1}), LIMIT, count=300)
    follow = Load(Shape(1, 1), "follow", topic="delayed", options={"due": int(began * 1000)})
    seen = run_load(broker.port, follow, LIMIT, count=sent.all_count)
    assert seen.all_count >= sent.all_count
    assert seen.first_ms >= 1000


def test_refused_sends_are_not_counted(broker: OurBroker) -> None:
    with pytest.raises(Failed, match="refused"):
        generate(broker.port, Shape(1, 1), 10, LIMIT, count=3, topic="SCHEDULE_TOPIC_XXXX")
