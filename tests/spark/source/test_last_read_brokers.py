"""What the brokers of both kinds say of a queue that is no longer the one a query read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.client import Message
from bolide.spark.errors import DataLost
from tests.spark.source.checkpoints import stored
from tests.spark.source.created_again import ALL, ANEW, OPEN, make_anew, read_up_to, reader
from tests.spark.target import Target

pytestmark = pytest.mark.usefixtures("closed_after")


@pytest.fixture
def closed_after() -> Iterator[None]:
    """No test leaves a connection behind."""
    yield
    while OPEN:
        OPEN.pop().stop()


def test_a_topic_made_anew_of_any_broker(rocketmq: Target, topic: str) -> None:
    end = read_up_to(rocketmq, topic, 9)
    assert reader(rocketmq, True, subscribe=topic).latestOffset(end, ALL) is end
    make_anew(rocketmq, topic, 14)
    with pytest.raises(DataLost, match=f"was read up to offset 9 and has another message at offset 8 now: {ANEW}"):
        reader(rocketmq, True, subscribe=topic).latestOffset(end, ALL)


def test_messages_left_in_a_dropped_queue(rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=2)
    first = reader(rocketmq, subscribe=topic, startingOffsets="earliest")
    start = stored(first.latestOffset(first.initialOffset(), ALL))
    sent = rocketmq.send([Message(topic, b"left") for _ in range(12)])
    end = stored(first.latestOffset(start, ALL))
    behind = max(result.queue_offset for result in sent if result.queue.queue_id == 1) + 1
    rocketmq.create_topic(topic, queues=1)
    assert reader(rocketmq, subscribe=topic).latestOffset(end, ALL) is end, "all of it was read"
    with pytest.raises(DataLost, match=f":1 was read up to offset 0 and holds messages up to {behind}, but its topic"):
        reader(rocketmq, subscribe=topic).latestOffset(start, ALL)
