"""Dead letters go back to where they came from, by filter and cap, and no run takes what another took."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bolide.client import Message
from bolide.layout.names import REDRIVER
from bolide.spark.errors import DataLost, OptionError
from bolide.spark.jobs.redrive import _begin, redrive
from bolide.spark.source.cluster import Cluster
from bolide.spark.source.last_read import look
from bolide.spark.source.queues import Offsets, Queue
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.spark.jobs.buried import GROUP, bury, failed_sends
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_dead_letters_return_by_filter_and_cap(
    spark: Any, bolide_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    sent = [Message("T", b"%02d" % n, tags="AB"[n % 2], keys=[f"k{n}"], properties={"n": str(n)}) for n in range(20)]
    send(bolide_broker.namesrv_addr, sent)
    asyncio.run(bury(bolide_broker.namesrv_addr, 20))
    read = spark.read.format("rocketmq").options(**namesrv)

    def returned() -> list[Any]:
        rows = read.load("T").collect()
        return sorted((row for row in rows if row.queue_offset >= ends[row.queue_id]), key=lambda row: bytes(row.body))

    newest = read.load("T").groupBy("queue_id").agg({"queue_offset": "max"}).collect()
    ends = dict.fromkeys(range(16), 0) | {row.queue_id: row[1] + 1 for row in newest}
    letters = [bytes(row.body) for row in read.load(f"%DLQ%{GROUP}").orderBy("queue_offset").collect()]
    assert sorted(set(letters)) == [b"%02d" % n for n in range(20)]
    assert len(letters) <= 20 + failed_sends(caplog.text)
    evens = [body for body in letters if int(body) % 2 == 0]

    first = redrive(spark, GROUP, namesrv, where="tags = 'A'", limit=4)
    assert first.messages == 4
    assert [bytes(row.body) for row in returned()] == sorted(evens[:4])
    second = redrive(spark, GROUP, namesrv, where="tags = 'A'")
    assert second.messages == len(evens) - 4
    again = returned()
    assert [bytes(row.body) for row in again] == sorted(evens)
    for row in again:
        n = int(row.body)
        assert (row.tags, row["keys"], row.properties["n"], row.reconsume_times) == ("A", [f"k{n}"], str(n), 0)
        assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY"} & row.properties.keys()
    assert redrive(spark, GROUP, namesrv).messages == 0

    bolide_broker.create_topic("Elsewhere")
    other = redrive(spark, GROUP, namesrv, topic="Elsewhere", as_group="second-look")
    assert other.messages == len(letters)
    assert read.load("Elsewhere").count() == len(letters)


def test_a_dead_letter_of_unknown_origin_needs_a_topic(spark: Any, bolide_broker: Broker) -> None:
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    with pytest.raises(OptionError, match="topic %DLQ%Nobody has no route"):
        redrive(spark, "Nobody", namesrv)
    bolide_broker.create_topic("%DLQ%Lost", queues=1)
    send(bolide_broker.namesrv_addr, [Message("%DLQ%Lost", b"whence?")])
    with pytest.raises(OptionError, match="at offset 0 of queue 0 on .* name a topic for it"):
        redrive(spark, "Lost", namesrv)


class Kept(Cluster):
    """A cluster that is asked for nothing but these."""

    def __init__(self, first: Offsets, reached: Offsets) -> None:
        self._first, self._reached = first, reached

    def earliest(self, queues: list[Queue]) -> Offsets:
        return self._first

    def committed(self, queues: list[Queue], group: str, default: int) -> Offsets:
        return self._reached


def test_dead_letters_that_no_run_has_taken_are_missed(bolide_broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """No session is needed: the run ends before it reads."""
    dead = f"%DLQ%{GROUP}"
    bolide_broker.create_topic(dead, queues=1)
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    options = read_options({**namesrv, "subscribe": dead, "group": REDRIVER})
    cluster = Cluster(options)
    try:
        (queue,) = cluster.queues([dead])
        look(cluster, REDRIVER, {queue: 1})  # a broker accepts offsets of groups that it knows
        cluster.commit({queue: 7})
        with pytest.raises(DataLost, match="was redriven up to offset 7 and ends at 0 now"):
            redrive(None, GROUP, namesrv)
        assert _begin(cluster, [queue], replace(options, fail_on_data_loss=False), {queue: 0}) == {queue: 0}
        assert "was redriven up to offset 7" in caplog.text
        kept = Kept({queue: 9}, {queue: 7})
        with pytest.raises(DataLost, match="was redriven up to offset 7 and begins at 9 now: the dead letters"):
            _begin(kept, [queue], options, {queue: 20})
        assert _begin(kept, [queue], replace(options, fail_on_data_loss=False), {queue: 20}) == {queue: 9}
    finally:
        cluster.close()
