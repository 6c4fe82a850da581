"""The source and the sink in a real session, against a real broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.testing.broker import Broker
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SOME = [
    Message("T", b"body-%d" % number, tags="AB"[number % 2], keys=[f"k{number}", "all"], properties={"n": str(number)})
    for number in range(100)
]


def load(spark: Any, broker: Broker, **options: Any) -> Any:
    reader = spark.read.format("rocketmq").option("namesrv", broker.namesrv_addr).option("subscribe", "T")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def test_every_column_is_what_the_producer_and_the_broker_said(spark: Any, bolide_broker: Broker) -> None:
    big = Message("T", b"z" * 10_000, flag=7)
    results = send(bolide_broker.namesrv_addr, [*SOME, big])
    rows = {row.message_id: row for row in load(spark, bolide_broker).collect()}
    assert len(rows) == 101
    for message, result in zip([*SOME, big], results, strict=True):
        row = rows[result.message_id]
        assert (row.topic, row.broker) == ("T", result.queue.broker_name)
        assert (row.queue_id, row.queue_offset) == (result.queue.queue_id, result.queue_offset)
        assert bytes(row.body) == message.body
        assert row.tags == (message.tags or None)
        assert row.offset_message_id == result.offset_message_id
        assert row.flag == message.flag
        assert row.reconsume_times == 0
        assert row.transaction_state == "none"
        assert row.store_host == bolide_broker.broker_addr
        assert row.born_host.startswith("127.0.0.1:")
        assert abs(row.store_timestamp - row.born_timestamp).total_seconds() < 60
    first = rows[results[0].message_id]
    assert first["keys"] == ["k0", "all"]
    assert first.properties["n"] == "0"
    assert first.properties["UNIQ_KEY"] == results[0].message_id


def test_tags_offsets_splits_and_a_narrower_schema(spark: Any, bolide_broker: Broker) -> None:
    results = send(bolide_broker.namesrv_addr, SOME)
    assert load(spark, bolide_broker, tags="A").count() == 50
    assert load(spark, bolide_broker, tags="A || B").count() == 100
    assert load(spark, bolide_broker, tags="C").count() == 0
    split = load(spark, bolide_broker, maxRecordsPerPartition=7)
    assert split.rdd.getNumPartitions() >= 15
    assert split.count() == 100
    assert load(spark, bolide_broker, startingOffsets="latest").count() == 0
    queue = results[0].queue
    offsets = f'{{"T":{{"{queue.broker_name}":{{"{queue.queue_id}":5}}}}}}'
    kept = [r for r in results if r.queue.queue_id != queue.queue_id or r.queue_offset >= 5]
    assert load(spark, bolide_broker, startingOffsets=offsets).count() == len(kept)
    narrow = (
        spark.read.format("rocketmq")
        .schema("queue_offset BIGINT, body BINARY")
        .options(namesrv=bolide_broker.namesrv_addr, subscribe="T")
        .load()
    )
    assert sorted(bytes(row.body) for row in narrow.collect()) == sorted(message.body for message in SOME)


def test_a_stream_goes_on_from_its_checkpoint(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    def run() -> list[int]:
        query = (
            spark.readStream.format("rocketmq")
            .options(namesrv=bolide_broker.namesrv_addr, subscribe="T", startingOffsets="earliest")
            .option("maxOffsetsPerTrigger", 30)
            .load()
            .selectExpr("CAST(body AS STRING) AS body")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        assert query.exception() is None
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    send(bolide_broker.namesrv_addr, SOME)
    first = run()
    assert sum(first) == 100
    assert max(first) <= 30
    more = [Message("T", b"later-%d" % number) for number in range(20)]
    send(bolide_broker.namesrv_addr, more)
    assert sum(run()) == 20
    stored = [row.body for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(stored) == sorted(message.body.decode() for message in [*SOME, *more])


def test_rows_become_messages(spark: Any, bolide_broker: Broker) -> None:
    bolide_broker.create_topic("T")
    frame = spark.range(500).selectExpr(
        "CAST(id AS STRING) AS body",
        "IF(id % 2 = 0, 'even', 'odd') AS tags",
        "array(concat('k', id)) AS keys",
        "map('square', CAST(id * id AS STRING)) AS properties",
        "concat('s', id % 3) AS sharding_key",
    )
    writer = frame.write.format("rocketmq").mode("append")
    writer.options(namesrv=bolide_broker.namesrv_addr, topic="T").save()
    rows = load(spark, bolide_broker).collect()
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(500))
    for row in rows:
        number = int(bytes(row.body))
        assert row.tags == ("odd" if number % 2 else "even")
        assert row["keys"] == [f"k{number}"]
        assert row.properties["square"] == str(number * number)
    queues = {row.properties["__SHARDINGKEY"]: row.queue_id for row in rows}
    assert all(queues[row.properties["__SHARDINGKEY"]] == row.queue_id for row in rows)


def test_a_read_starts_at_a_groups_offsets_and_at_a_time(spark: Any, bolide_broker: Broker) -> None:
    from bolide.admin.blocking import Admin
    from bolide.client import MessageQueue

    bolide_broker.create_topic("T", queues=2)
    results = send(bolide_broker.namesrv_addr, SOME)
    broker = results[0].queue.broker_name
    ends = {queue_id: sum(1 for r in results if r.queue.queue_id == queue_id) for queue_id in (0, 1)}
    with Admin(bolide_broker.namesrv_addr) as admin:
        admin.create_group("readers")
        admin.set_group_offset("readers", MessageQueue("T", broker, 0), 3)
    # The other queue was never committed: a batch read then begins at its first message.
    read = load(spark, bolide_broker, startingOffsets="group", group="readers")
    assert read.count() == ends[0] - 3 + ends[1]
    later = max(row.store_timestamp for row in load(spark, bolide_broker).select("store_timestamp").collect())
    assert load(spark, bolide_broker, startingTimestamp=int(later.timestamp() * 1000) + 60_000).count() == 0
    assert load(spark, bolide_broker, startingTimestamp=0).count() == 100


def test_lost_offsets_fail_the_read_or_are_passed_over(spark: Any, bolide_broker: Broker) -> None:
    results = send(bolide_broker.namesrv_addr, SOME)
    queue = results[0].queue
    beyond = f'{{"T":{{"{queue.broker_name}":{{"{queue.queue_id}":{10_000}}}}}}}'
    read = load(spark, bolide_broker, endingOffsets=beyond)
    with pytest.raises(Exception, match="the broker holds 0 to|fewer messages than when the batch was planned"):
        read.count()
    kept = load(spark, bolide_broker, endingOffsets=beyond, failOnDataLoss="false")
    assert kept.where(f"queue_id = {queue.queue_id}").count() == sum(1 for r in results if r.queue == queue)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "T"}, "set option namesrv"),
        ({"namesrv": "127.0.0.1:1", "subscribe": "T", "startngOffsets": "earliest"}, "startngoffsets is unknown"),
    ],
)
def test_a_wrong_option_is_one_sentence(spark: Any, options: dict[str, str], text: str) -> None:
    with pytest.raises(Exception, match=text):
        spark.read.format("rocketmq").options(**options).load().count()


def test_a_topic_nobody_knows_is_named(spark: Any, bolide_broker: Broker) -> None:
    with pytest.raises(Exception, match="topic T has no route"):
        load(spark, bolide_broker).count()


def test_the_program_of_the_page(spark: Any, bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.test_programs import run

    bolide_broker.create_topic("Orders")
    run("spark_batch", bolide_broker)
    assert "two teas" in capsys.readouterr().out
