"""The queues that a task chooses: rows keep their order in each, whatever chose it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bolide.layout.record import decode_records
from bolide.spark.sink.messages import Task
from tests.client.scripted_broker import ScriptedBroker
from tests.spark.sink_rounds import write

TASK = Task("q", 0, 3)
ROWS = [b"%03d" % number for number in range(200)]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker("broker-a", queues=2) as broker:
        yield broker


def stored(broker: ScriptedBroker) -> list[list[bytes]]:
    """The rows in each queue, in order."""
    return [[record.body for each in data for record in decode_records(each)] for data in broker.stored.values()]


def test_rows_of_a_queue_keep_their_order_whatever_chose_it(broker: ScriptedBroker) -> None:
    keys = ["s1" if number % 3 == 0 else "s2" if number % 7 == 0 else None for number in range(200)]
    numbers = [number % 4 // 2 if number % 5 < 2 else None for number in range(200)]
    options = {"namesrv": broker.address, "topic": "T", "batchBytes": "1500"}
    write(options, TASK, ROWS, sharding_key=keys, queue_id=numbers)
    found = stored(broker)
    assert all(rows == sorted(rows) for rows in found)
    assert sorted(row for rows in found for row in rows) == ROWS


@pytest.mark.parametrize("column", ["sharding_key", "queue_id"])
def test_rows_without_a_key_use_all_queues(broker: ScriptedBroker, column: str) -> None:
    chosen = [None] * 199 + ["s1" if column == "sharding_key" else 0]
    options = {"namesrv": broker.address, "topic": "T", "batchBytes": "1500"}
    write(options, TASK, ROWS, **{column: chosen})
    assert [len(rows) > 80 for rows in stored(broker)] == [True, True]
