"""Streams under Spark 4.0 and 4.1, called in the order in which these call a source, against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from bolide.spark.errors import DataLost, OptionError
from bolide.spark.older_stream import OPEN, OlderStream
from bolide.spark.source.source_options import read_options
from bolide.spark.source.stream import RocketMQStreamReader
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.source.checkpoints import produce, stored

pytestmark = pytest.mark.versions
SCHEMA = StructType([StructField("queue_offset", LongType())])


class Query:
    """A query on one checkpoint, as Spark 4.0 and 4.1 run it. Each run has a reader of its own."""

    def __init__(self, broker: Broker, **options: object) -> None:
        given = {"subscribe": "T", "startingOffsets": "earliest", **options}
        self._options = {"namesrv": broker.namesrv_addr, **{name: str(value) for name, value in given.items()}}
        self.planned: list[dict[str, Any]] = []
        self.rows = 0
        self._readers: list[OlderStream] = []

    def run(self, batches: int = 1, until_now: bool = False) -> list[int]:
        """Start the query and let it plan so many batches; the rows of each."""
        reader = OlderStream(RocketMQStreamReader(read_options(self._options, streaming=True), SCHEMA), until_now)
        self._readers.append(reader)
        if self.planned:
            assert reader.partitions(self.planned[-1], self.planned[-1]) == []
        return [self.batch(reader) for _ in range(batches)]

    def batch(self, reader: OlderStream) -> int:
        """Plan the next batch and read it."""
        end = stored(reader.latestOffset())
        start = self.planned[-1] if self.planned else stored(reader.initialOffset())
        return 0 if end == start else self.read(reader, start, end)

    def read(self, reader: OlderStream, start: dict[str, Any], end: dict[str, Any]) -> int:
        """Read a batch that is planned."""
        self.planned.append(end)
        found = sum(batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part))
        self.rows += found
        return found

    def early(self) -> int:
        """A batch whose end is asked for before Spark names the place in the checkpoint."""
        reader = OlderStream(RocketMQStreamReader(read_options(self._options, streaming=True), SCHEMA))
        self._readers.append(reader)
        end = stored(reader.latestOffset())
        assert OPEN in end
        return self.read(reader, self.planned[-1], end)

    def close(self) -> None:
        """Leave no connection behind."""
        for reader in self._readers:
            reader.stop()


@pytest.fixture
def queries() -> Iterator[list[Query]]:
    made: list[Query] = []
    yield made
    for query in made:
        query.close()


def test_a_query_and_its_next_runs_read_every_message_once(bolide_broker: Broker, queries: list[Query]) -> None:
    bolide_broker.create_topic("T", queues=3)
    produce(bolide_broker, "T", 20)
    query = Query(bolide_broker)
    queries.append(query)
    assert query.run(2) == [20, 0]
    produce(bolide_broker, "T", 7)
    assert query.run(1) == [7]
    assert query.run(1) == [0]


def test_a_limit_holds_in_every_batch(
    bolide_broker: Broker, queries: list[Query], caplog: pytest.LogCaptureFixture
) -> None:
    bolide_broker.create_topic("T", queues=2)
    produce(bolide_broker, "T", 20)
    query = Query(bolide_broker, maxOffsetsPerTrigger=8)
    queries.append(query)
    assert query.run(2) == [8, 8]
    assert caplog.text.count("AvailableNow ends the query after it") == 1, "only the first batch of a run"
    assert query.run(2) == [4, 0]
    assert caplog.text.count("AvailableNow ends the query after it") == 1


def test_a_run_until_now_has_limited_batches_and_ends_before_newer_messages(
    bolide_broker: Broker, queries: list[Query], caplog: pytest.LogCaptureFixture
) -> None:
    bolide_broker.create_topic("T")
    produce(bolide_broker, "T", 20)
    query = Query(bolide_broker, maxOffsetsPerTrigger=8)
    queries.append(query)
    assert query.run(1, until_now=True) == [8]
    produce(bolide_broker, "T", 5)
    reader = query._readers[-1]
    assert [query.batch(reader) for _ in range(3)] == [8, 4, 0]
    assert query.run(2, until_now=True) == [5, 0]
    assert "AvailableNow" not in caplog.text


def test_a_new_query_from_the_latest_offset_reads_what_comes_later(bolide_broker: Broker, queries: list[Query]) -> None:
    bolide_broker.create_topic("T")
    produce(bolide_broker, "T", 5)
    query = Query(bolide_broker, startingOffsets="latest")
    queries.append(query)
    assert query.run(1) == [0]
    query.planned.append(stored(query._readers[0].initialOffset()))
    produce(bolide_broker, "T", 3)
    assert query.run(1) == [3]


def test_a_batch_is_repeated_as_it_was_planned(bolide_broker: Broker, queries: list[Query]) -> None:
    bolide_broker.create_topic("T")
    produce(bolide_broker, "T", 10)
    query = Query(bolide_broker)
    queries.append(query)
    query.run(1)
    produce(bolide_broker, "T", 10)
    reader = OlderStream(RocketMQStreamReader(read_options(query._options, streaming=True), SCHEMA))
    query._readers.append(reader)
    first = query.planned.pop()
    assert reader.partitions(first, first) == []
    assert query.read(reader, stored(reader.initialOffset()), first) == 10
    assert query.batch(reader) == 10


def test_an_end_that_was_asked_for_too_early_continues_the_checkpoint(
    bolide_broker: Broker, queries: list[Query]
) -> None:
    bolide_broker.create_topic("T", queues=2)
    produce(bolide_broker, "T", 10)
    query = Query(bolide_broker)
    queries.append(query)
    query.run(1)
    produce(bolide_broker, "T", 6)
    assert query.early() == 6
    assert query.run(1) == [0]


def test_an_end_that_was_asked_for_too_early_repeats_no_message(bolide_broker: Broker, queries: list[Query]) -> None:
    bolide_broker.create_topic("T")
    produce(bolide_broker, "T", 10)
    query = Query(bolide_broker, maxOffsetsPerTrigger=4)
    queries.append(query)
    query.run(2)
    with pytest.raises(OptionError, match="leave out the limit, use option untilNow with another trigger"):
        query.early()


def test_the_first_batch_of_a_run_fails_without_a_broker_that_it_needs(
    bolide_broker: Broker, queries: list[Query]
) -> None:
    bolide_broker.create_topic("T")
    produce(bolide_broker, "T", 10)
    query = Query(bolide_broker)
    queries.append(query)
    query.run(1)
    with Admin(bolide_broker.namesrv_addr) as admin:
        admin.delete_topic("T")
    with pytest.raises(DataLost, match="no longer exists"):
        query.run(1)


def test_a_batch_without_tasks_has_no_rows(bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    reader = OlderStream(
        RocketMQStreamReader(
            read_options({"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}, streaming=True), SCHEMA
        )
    )
    assert list(reader.read(None)) == []
