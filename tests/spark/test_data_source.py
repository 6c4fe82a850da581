"""The live source in a real session, against a Bolide and a Java broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark import ending_runs
from bolide.spark.spark_versions import PASSES_LIMITS
from bolide.testing.broker import Broker
from tests.bodies.avro_data import NEW, datum
from tests.bodies.registry_server import registry
from tests.spark.end import read_everything
from tests.spark.target import Target

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def some(topic: str) -> list[Message]:
    return [
        Message(topic, b"body-%d" % n, tags="AB"[n % 2], keys=[f"k{n}", "all"], properties={"n": str(n)})
        for n in range(100)
    ]


def load(spark: Any, target: Target, topic: str, **more: object) -> Any:
    return spark.read.format("rocketmq").options(**target.options(topic, **more)).load()


def numbers(frame: Any) -> list[int]:
    return sorted(int(bytes(row.body).rpartition(b"-")[2]) for row in frame.select("body").collect())


def test_every_column_is_what_the_producer_and_the_broker_said(spark: Any, rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    messages = [*some(topic), Message(topic, b"z" * 10_000, flag=7)]
    results = rocketmq.send(messages)
    rows = {row.message_id: row for row in load(spark, rocketmq, topic, columns="*, property.n").collect()}
    assert len(rows) == 101
    for message, result in zip(messages, results, strict=True):
        row = rows[result.message_id]
        assert (row.topic, row.broker) == (topic, result.queue.broker_name)
        assert (row.queue_id, row.queue_offset) == (result.queue.queue_id, result.queue_offset)
        assert bytes(row.body) == message.body
        assert row.tags == (message.tags or None)
        assert row.offset_message_id == result.offset_message_id
        assert row.flag == message.flag
        assert row.reconsume_times == 0
        assert row.transaction_state == "none"
        assert row.store_host == rocketmq.broker_addr
        assert row.born_host.startswith("127.0.0.1:")
        assert abs(row.store_timestamp - row.born_timestamp).total_seconds() < 60
        assert row["property.n"] == message.properties.get("n")
    first = rows[results[0].message_id]
    assert first["keys"] == ["k0", "all"]
    assert first.properties["n"] == "0"
    assert first.properties["UNIQ_KEY"] == results[0].message_id


def test_columns_are_left_out(spark: Any, rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    rocketmq.send(some(topic))
    narrow = spark.read.format("rocketmq").schema("queue_offset BIGINT, `property.n` STRING")
    rows = narrow.options(**rocketmq.options(topic)).load().collect()
    assert sorted(int(row["property.n"]) for row in rows) == list(range(100))
    assert load(spark, rocketmq, topic, columns="body, queue_id").columns == ["body", "queue_id"]
    assert numbers(load(spark, rocketmq, topic, columns="body", tags="A")) == list(range(0, 100, 2))


@pytest.mark.versions
def test_typed_bodies(spark: Any, rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=1)
    bodies = [b'{"id": %d, "place": {"city": "Cairo"}}' % number for number in range(20)]
    rocketmq.send([Message(topic, body) for body in bodies])
    rocketmq.send([Message(topic, b"no json")])  # on its own: sends in flight together arrive in any order
    more = {"body.format": "json", "body.schema": "id BIGINT, place STRUCT<city: STRING>"}
    frame = load(spark, rocketmq, topic, **more, **{"body.onBadRecord": "drop"})
    assert frame.selectExpr("sum(id) AS s", "count(place.city) AS c").collect()[0].asDict() == {"s": 190, "c": 20}
    kept = load(spark, rocketmq, topic, **more, **{"body.onBadRecord": "column", "columns": "id, _corrupt_record"})
    assert [bytes(row[1]) for row in kept.where("id IS NULL").collect()] == [b"no json"]
    with pytest.raises(Exception, match=rf"the body of \S*{rocketmq.broker_name}:0 offset 20 does not fit body.schema"):
        load(spark, rocketmq, topic, **more).count()
    given = spark.read.format("rocketmq").schema("id INT").options(**rocketmq.options(topic))
    ids = given.option("body.format", "json").option("body.onBadRecord", "drop").load()
    assert ids.agg({"id": "max"}).first()[0] == 19


def test_bodies_of_a_registry(spark: Any, rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic, queues=1)
    with registry() as served:
        number = served.add("orders-value", json.dumps(NEW))
        head = b"\0" + number.to_bytes(4, "big")
        rocketmq.send([Message(topic, head + datum(NEW, {"id": id, "note": f"n{id}"})) for id in range(20)])
        more = {"body.format": "avro", "body.registry": served.address, "body.subject": "orders-value"}
        frame = load(spark, rocketmq, topic, **more, **{"body.column": "value"}).where("value.id > 17")
        assert sorted(map(tuple, frame.select("value.*").collect())) == [(18, "n18"), (19, "n19")]
        json_more = {**more, "body.format": "json"}
        with pytest.raises(Exception, match="the subject orders-value is avro"):
            load(spark, rocketmq, topic, **json_more)


@pytest.mark.versions
def test_a_stream_goes_on_from_its_checkpoint(spark: Any, rocketmq: Target, topic: str, tmp_path: Path) -> None:
    def run() -> list[Any]:
        query = (
            spark.readStream.format("rocketmq")
            .options(**rocketmq.options(topic, startingOffsets="earliest", maxOffsetsPerTrigger=30, tags="A || B"))
            .options(**ending_runs.OPTIONS)
            .load()
            .selectExpr("CAST(body AS STRING) AS body")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**ending_runs.TRIGGER)
            .start()
        )
        read_everything(query)
        return [progress for progress in query.recentProgress if progress.numInputRows]

    rocketmq.create_topic(topic)
    rocketmq.send(some(topic))
    first = run()
    assert sum(progress.numInputRows for progress in first) == 100
    assert max(progress.numInputRows for progress in first) <= 30
    if PASSES_LIMITS:
        ends = [json.loads(getattr(first[0].sources[0], name))["queues"] for name in ("endOffset", "latestOffset")]
        reached, latest = (sum(sum(queues.values()) for queues in end[topic].values()) for end in ends)
        assert latest - reached == 70, "the lag that progress shows"
    more = [Message(topic, b"later-%d" % number, tags="A") for number in range(20)]
    rocketmq.send(more)
    assert sum(progress.numInputRows for progress in run()) == 20
    stored = [row.body for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert sorted(stored) == sorted(message.body.decode() for message in [*some(topic), *more])


def test_queries_that_share_a_load_see_the_same_rows(spark: Any, rocketmq: Target, topic: str) -> None:
    """With Spark's own push-down the second one would get the first one's rows only."""
    rocketmq.create_topic(topic)
    rocketmq.send(some(topic))
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = load(spark, rocketmq, topic)
        assert frame.where("tags = 'A'").count() == 50
        assert frame.count() == 100
        assert frame.where("tags = 'A'").union(frame.where("tags = 'B'")).count() == 100
        empty = load(spark, rocketmq, topic, startingOffsets="latest")
        assert empty.collect() == [], "no task at all is one task with nothing to do"
        rocketmq.send([Message(topic, b"new-1")])
        assert frame.count() == 100, "one load is planned once"
        assert load(spark, rocketmq, topic).count() == 101
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "T"}, "set option namesrv"),
        ({"namesrv": "127.0.0.1:1", "subscribe": "T", "startngOffsets": "earliest"}, "startngoffsets is unknown"),
        ({"namesrv": "127.0.0.1:1", "subscribe": "T", "body.format": "json"}, "needs option body.schema"),
    ],
    ids=["no name server", "unknown", "no schema"],
)
def test_a_wrong_option_is_one_sentence(spark: Any, options: dict[str, str], text: str) -> None:
    with pytest.raises(Exception, match=text):
        spark.read.format("rocketmq").options(**options).load()


def test_an_error_of_a_stream_is_ours(spark: Any, rocketmq: Target, topic: str) -> None:
    """Spark hides errors of a stream's start: it falls back to another kind of reader, or fails in its clean-up."""
    reader = spark.readStream.format("rocketmq").options(**rocketmq.options(topic, endingOffsets="latest"))
    query = reader.load().writeStream.format("noop").start()
    with pytest.raises(Exception, match="a stream has no end: remove endingOffsets") as caught:
        query.awaitTermination(300)
    assert "UnboundLocalError" not in str(caught.value)


def test_a_topic_nobody_knows_is_named(spark: Any, rocketmq: Target, topic: str) -> None:
    with pytest.raises(Exception, match=f"topic {topic} has no route"):
        load(spark, rocketmq, topic).count()


def test_rows_become_messages(spark: Any, rocketmq: Target, topic: str) -> None:
    rocketmq.create_topic(topic)
    frame = spark.range(500).selectExpr(
        "CAST(id AS STRING) AS body",
        "IF(id % 2 = 0, 'even', 'odd') AS tags",
        "array(concat('k', id)) AS keys",
        "map('square', CAST(id * id AS STRING)) AS properties",
        "concat('s', id % 3) AS sharding_key",
    )
    frame.write.format("rocketmq").mode("append").options(namesrv=rocketmq.namesrv_addr, topic=topic).save()
    rocketmq.wait_for(topic, 500)
    rows = load(spark, rocketmq, topic).collect()
    assert sorted(int(bytes(row.body)) for row in rows) == list(range(500))
    for row in rows:
        number = int(bytes(row.body))
        assert row.tags == ("odd" if number % 2 else "even")
        assert row["keys"] == [f"k{number}"]
        assert row.properties["square"] == str(number * number)
    queues = {row.properties["__SHARDINGKEY"]: row.queue_id for row in rows}
    assert all(queues[row.properties["__SHARDINGKEY"]] == row.queue_id for row in rows)


def test_the_program_of_the_page(spark: Any, bolide_broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.page_programs import run

    bolide_broker.create_topic("Orders")
    run("spark_batch", bolide_broker)
    assert "two teas" in capsys.readouterr().out
