"""A queue that is no longer the one a query read: its topic was created again, or has fewer queues.

Offsets alone show nothing once the new queue has grown past the old place, so each test lets it grow.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bolide.client import Message
from bolide.spark.errors import DataLost
from bolide.spark.source.marks import mark_of, marks_of, marks_to_json
from bolide.spark.source.queues import Queue
from bolide.testing.broker import Broker
from tests.spark.produce import send
from tests.spark.source.checkpoints import produce, rows, stored
from tests.spark.source.created_again import ALL, ANEW, OPEN, make_anew, read_up_to, reader


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """No test leaves a connection behind."""
    yield
    while OPEN:
        OPEN.pop().stop()


@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("count", [9, 14])
def test_a_new_queue_that_has_grown_to_the_old_place_or_past_it(
    bolide_broker: Broker, now: bool, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    end = read_up_to(bolide_broker, "T", 9)
    make_anew(bolide_broker, "T", count)
    said = f"T@broker-a:0 was read up to offset 9 and has another message at offset 8 now: {ANEW}"
    with pytest.raises(DataLost, match=said):
        reader(bolide_broker, now, subscribe="T").latestOffset(end, ALL)
    tolerant = reader(bolide_broker, now, subscribe="T", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        following = stored(tolerant.latestOffset(end, ALL))
    assert [record.getMessage() for record in caplog.records] == [
        "T@broker-a:0 was read up to offset 9 and has another message at offset 8 now: its topic was deleted and "
        "created again, or its broker lost messages; failOnDataLoss is false: the read continues"
    ]
    assert rows(tolerant, end, following) == [(0, offset) for offset in range(count)]
    assert tolerant.latestOffset(following, ALL) is following
    assert reader(bolide_broker, now, subscribe="T").latestOffset(following, ALL) is following


@pytest.mark.parametrize("remembered", [True, False])
def test_a_shorter_queue_in_a_run_that_ends_with_what_is_there(bolide_broker: Broker, remembered: bool) -> None:
    end = read_up_to(bolide_broker, "T", 9)
    if not remembered:
        del end["last"]
    make_anew(bolide_broker, "T", 4)
    with pytest.raises(DataLost, match=f"T@broker-a:0 was read up to offset 9 and ends at 4 now: {ANEW}"):
        reader(bolide_broker, True, subscribe="T").latestOffset(end, ALL)
    tolerant = reader(bolide_broker, True, subscribe="T", failOnDataLoss="false")
    following = stored(tolerant.latestOffset(end, ALL))
    assert rows(tolerant, end, following) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert tolerant.latestOffset(following, ALL) is following


@pytest.mark.parametrize("now", [False, True])
def test_a_topic_made_anew_between_two_batches_of_one_run(bolide_broker: Broker, now: bool) -> None:
    end = read_up_to(bolide_broker, "T", 9)
    produce(bolide_broker, "T", 5)
    running, tolerant = (
        reader(bolide_broker, now, subscribe="T", maxOffsetsPerTrigger=2, failOnDataLoss=fail) for fail in (True, False)
    )
    limit = running.getDefaultReadLimit()
    second = stored(running.latestOffset(end, limit))
    assert rows(running, end, second) == [(0, 9), (0, 10)]
    assert stored(tolerant.latestOffset(end, limit)) == second
    make_anew(bolide_broker, "T", 13)
    with pytest.raises(DataLost, match=f"was read up to offset 11 and has another message at offset 10 now: {ANEW}"):
        running.latestOffset(second, limit)
    third = stored(tolerant.latestOffset(second, limit))
    assert rows(tolerant, second, third) == [(0, 0), (0, 1)]
    found = []
    while (end := tolerant.latestOffset(third, limit)) is not third:
        found += rows(tolerant, third, end)
        third = stored(end)
    assert found == [(0, offset) for offset in range(2, 13)]


def test_a_batch_that_was_planned_before_the_topic_was_made_anew(bolide_broker: Broker) -> None:
    end = read_up_to(bolide_broker, "T", 9)
    produce(bolide_broker, "T", 5)
    planned = stored(reader(bolide_broker, subscribe="T").latestOffset(end, ALL))
    make_anew(bolide_broker, "T", 20)
    with pytest.raises(DataLost, match=f"was read up to offset 14 and has another message at offset 13 now: {ANEW}"):
        reader(bolide_broker, subscribe="T").partitions(end, planned)
    tolerant = reader(bolide_broker, subscribe="T", failOnDataLoss="false")
    assert rows(tolerant, end, planned) == []
    following = stored(tolerant.latestOffset(planned, ALL))
    assert rows(tolerant, planned, following) == [(0, offset) for offset in range(20)]


def test_a_start_at_the_end_of_a_queue_is_known_again_too(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T", queues=1)
    produce(bolide_broker, "T", 9)
    start = stored(reader(bolide_broker, subscribe="T").initialOffset())
    make_anew(bolide_broker, "T", 14)
    with pytest.raises(DataLost, match="was read up to offset 9 and has another message"):
        reader(bolide_broker, subscribe="T").latestOffset(start, ALL)


def test_a_checkpoint_of_an_earlier_version_goes_on_and_is_complete_from_then_on(bolide_broker: Broker) -> None:
    end = read_up_to(bolide_broker, "T", 9)
    assert set(marks_of(end)) == {Queue("T", "broker-a", 0)}
    del end["last"]
    produce(bolide_broker, "T", 3)
    again = reader(bolide_broker, subscribe="T")
    following = stored(again.latestOffset(end, ALL))
    assert rows(again, end, following) == [(0, 9), (0, 10), (0, 11)]
    make_anew(bolide_broker, "T", 14)
    with pytest.raises(DataLost, match="was read up to offset 12 and has another message"):
        reader(bolide_broker, subscribe="T").latestOffset(following, ALL)


def test_queues_that_are_dropped_must_have_been_read(bolide_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    bolide_broker.create_topic("T", queues=4)
    produce(bolide_broker, "T", 40)
    first = reader(bolide_broker, subscribe="T", startingOffsets="earliest")
    start = stored(first.initialOffset())
    end = stored(first.latestOffset(start, ALL))
    assert len(rows(first, start, end)) == 40
    bolide_broker.create_topic("T", queues=2)
    assert reader(bolide_broker, True, subscribe="T").latestOffset(end, ALL) is end, "all of them was read"
    bolide_broker.create_topic("T", queues=4)
    sent = send(bolide_broker.namesrv_addr, [Message("T", b"late") for _ in range(24)])
    late = sorted((result.queue.queue_id, result.queue_offset) for result in sent)
    begin, behind = end["queues"]["T"]["broker-a"]["2"], max(offset for queue, offset in late if queue == 2) + 1
    bolide_broker.create_topic("T", queues=2)
    named = (
        f"T@broker-a:2 was read up to offset {begin} and holds messages up to {behind}, but its topic has only 2 "
        "queues for reading on broker-a now: give it 3 again until they are read; set failOnDataLoss to false to "
        "continue"
    )
    for now in (False, True):
        with pytest.raises(DataLost, match=named):
            reader(bolide_broker, now, subscribe="T").latestOffset(end, ALL)
    tolerant = reader(bolide_broker, subscribe="T", failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "bolide.spark"):
        following = stored(tolerant.latestOffset(end, ALL))
        assert tolerant.latestOffset(following, ALL) is following
    assert [record.getMessage().split(" was ")[0][-2:] for record in caplog.records] == [":2", ":3"], "said once"
    assert rows(tolerant, end, following) == [place for place in late if place[0] < 2]
    narrow = reader(bolide_broker, True, subscribe="T", queueIds="0,1")
    assert narrow.latestOffset(following, ALL) is following, "the others are not asked for"
    bolide_broker.create_topic("T", queues=4)
    again = reader(bolide_broker, True, subscribe="T")
    assert rows(again, following, again.latestOffset(following, ALL)) == [place for place in late if place[0] >= 2]


@given(
    marks=st.dictionaries(
        st.builds(Queue, st.sampled_from("TU"), st.sampled_from("ab"), st.integers(0, 1 << 20)),
        st.integers(0, (1 << 32) - 1),
        max_size=30,
    )
)
def test_marks_survive_a_checkpoint(marks: dict[Queue, int]) -> None:
    assert marks_of({"last": json.loads(json.dumps(marks_to_json(marks)))}) == marks


def test_marks_of_earlier_versions_are_read() -> None:
    earlier = {"last": {"T": {"a": {"3": [4_096, 1_793_000_000_000]}}}}
    assert marks_of(earlier) == {Queue("T", "a", 3): mark_of(4_096, 1_793_000_000_000)}
    assert mark_of(4_096, 1_793_000_000_000) != mark_of(4_096, 1_793_000_000_001)
    assert marks_of({}) == {}
