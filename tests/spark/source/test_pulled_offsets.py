"""A user with RocketMQ's usual rights of a reader: offsets come from pulls, and mean the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from bolide.remoting import codes
from bolide.remoting.command import Command, make_request, make_response
from bolide.remoting.headers.pull import PullMessageResponseHeader
from bolide.spark.data_source import RocketMQReader
from bolide.spark.errors import ClusterUnavailable, NotPermitted
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.pulled_offsets import ATTEMPTS, PulledOffsets, Question
from bolide.spark.source.queues import Queue
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.layout.records import record_bytes
from tests.spark.acl import ROOT, grant, guarded, options_of
from tests.spark.schemas import SCHEMA

USUAL = {"Topic:T": ["Sub"], "Group:bolide-spark": ["Sub"]}
QUEUE = Queue("T", "broker-a", 0)
COUNT = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    rights = {"reader": USUAL, "full": {**USUAL, "Topic:T": ["Sub", "Get"]}, "writer": {"Topic:T": ["Pub"]}}
    with guarded(rights, COUNT) as made:
        yield made


def cluster(broker: Broker, user: str, **more: str) -> Cluster:
    made = Cluster(read_options({**options_of(broker, user), "subscribe": "T", **more}))
    made.queues(["T"])
    return made


def rows(broker: Broker, user: str, **more: str) -> list[int]:
    """The store times of what a batch read returns."""
    reader = RocketMQReader(read_options({**options_of(broker, user), "subscribe": "T", **more}), SCHEMA)
    return [
        time.value // 1000
        for task in reader.partitions()
        for batch in reader.read(task)
        for time in batch.column("store_timestamp")
    ]


def test_a_reader_without_get_reads_what_others_do(broker: Broker) -> None:
    times = rows(broker, "full")
    assert len(times) == COUNT
    assert rows(broker, "reader") == times
    middle = str(times[COUNT // 2])
    assert rows(broker, "reader", startingTimestamp=middle) == rows(broker, "full", startingTimestamp=middle)
    assert rows(broker, "reader", startingOffsets="group") == times


def test_positions_by_time_are_those_of_the_broker(broker: Broker) -> None:
    times = rows(broker, "full")
    wanted = [0, *(time + more for time in times for more in (0, 1)), times[-1] + 1]
    with closing(cluster(broker, "full")) as asked, closing(cluster(broker, "reader")) as pulled:
        assert pulled.earliest([QUEUE]) == asked.earliest([QUEUE]) == {QUEUE: 0}
        assert pulled.latest([QUEUE]) == asked.latest([QUEUE]) == {QUEUE: COUNT}
        assert [pulled.by_time({QUEUE: time}) for time in wanted] == [asked.by_time({QUEUE: time}) for time in wanted]


def test_refused_pulls_name_the_missing_right(broker: Broker) -> None:
    for user, more in (("writer", {}), ("reader", {"group": "foreign"})):
        with (
            closing(cluster(broker, user, **more)) as made,
            pytest.raises(
                NotPermitted, match=r"T@broker-a:0: the broker rejected a pull of group .*needs the right Sub"
            ),
        ):
            made.latest([QUEUE])


def test_a_dropped_queue_has_no_offsets(broker: Broker) -> None:
    with closing(cluster(broker, "reader")) as made:
        assert made.latest([QUEUE, Queue("T", "broker-a", 7)]) == {QUEUE: COUNT}


def test_a_right_that_is_granted_later_is_noticed(broker: Broker) -> None:
    with Admin(broker.namesrv_addr, **ROOT) as admin:
        admin.create_user("late", "s3cret-of-late")
        with closing(cluster(broker, "late")) as made, pytest.raises(NotPermitted):
            made.latest([QUEUE])
        grant(admin, "late", USUAL)
        with closing(cluster(broker, "late")) as made:
            assert made.latest([QUEUE]) == {QUEUE: COUNT}


def scripted(answer_at: Callable[[int], Command], exists: bool = True) -> PulledOffsets:
    """Offsets of a broker that responds like this to a pull of an offset."""

    def ask(queues: list[Queue], question: Question, at_once: int) -> list[tuple[Queue, Command]]:
        return [(queue, answer_at(int(question(queue)[1]["queueOffset"]))) for queue in queues]

    return PulledOffsets(ask, "g", lambda queue: exists)


def answer(code: int, following: int = 0, body: bytes = b"") -> Command:
    """The response of a queue with the offsets 0 to 15."""
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0, next_begin_offset=following, min_offset=0, max_offset=16
    )
    return make_response(make_request(codes.PULL_MESSAGE, 0, {}), code, "why", header.to_ext(), body)


def refusal(code: int) -> Command:
    """A response without the ends of the queue."""
    return make_response(make_request(codes.PULL_MESSAGE, 0, {}), code, "why")


def stored(offset: int) -> Command:
    """The message at an offset; its store time is its offset."""
    body = record_bytes("T", queue_offset=offset, physical_offset=200 * offset, store_timestamp=offset)
    return answer(codes.SUCCESS, offset + 1, body)


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        (codes.NO_PERMISSION, NotPermitted, "rejected a pull of group g: why"),
        (codes.SYSTEM_ERROR, ClusterUnavailable, "the broker returned 1: why"),
    ],
)
def test_a_refusal_between_two_steps_does_not_move_the_start(code: int, error: type[Exception], text: str) -> None:
    pulled = scripted(lambda offset: stored(offset) if offset in (0, 8) else refusal(code))
    with pytest.raises(error, match=text):
        pulled.by_time({QUEUE: 3})


def test_a_queue_that_is_dropped_between_two_steps_has_no_position() -> None:
    gone = refusal(codes.INVALID_PARAMETER)
    assert scripted(lambda offset: stored(offset) if offset in (0, 8) else gone, exists=False).by_time({QUEUE: 3}) == {}


@pytest.mark.parametrize("code", [codes.PULL_OFFSET_MOVED, codes.PULL_NOT_FOUND])
def test_a_pull_without_its_message_is_repeated(code: int) -> None:
    asked: list[int] = []

    def once(offset: int) -> Command:
        asked.append(offset)
        return answer(code) if asked.count(4) == 1 and offset == 4 else stored(offset)

    assert scripted(once).by_time({QUEUE: 3}) == {QUEUE: 3}
    assert asked.count(4) == 2


def test_a_message_that_no_pull_returns_is_an_error() -> None:
    asked: list[int] = []

    def never(offset: int) -> Command:
        asked.append(offset)
        return stored(offset) if offset in (0, 8) else answer(codes.PULL_OFFSET_MOVED)

    with pytest.raises(ClusterUnavailable, match="holds offset 4 and did not return its message .* with 21: why"):
        scripted(never).by_time({QUEUE: 3})
    assert asked.count(4) == ATTEMPTS


def test_messages_that_the_broker_lacks_are_passed_over() -> None:
    def holed(offset: int) -> Command:
        return answer(codes.PULL_RETRY_IMMEDIATELY, 7) if offset < 7 else stored(offset)

    assert scripted(holed).by_time({QUEUE: 3}) == {QUEUE: 7}
