"""The sink in a real session: what Spark passes on, replays, aborts and refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark import ending_runs
from bolide.testing.broker import Broker
from tests.bodies.registry_server import registry
from tests.spark.end import read_everything
from tests.spark.produce import send
from tests.spark.sink_rounds import bodies, records

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def copy(spark: Any, broker: Broker, checkpoint: Path, **options: str) -> None:
    """Run a query that copies topic In to topic Out until it has read what is there."""
    rows = (
        spark.readStream.format("rocketmq")
        .options(namesrv=broker.namesrv_addr, subscribe="In", startingOffsets="earliest", maxOffsetsPerTrigger=40)
        .options(**ending_runs.OPTIONS)
        .load()
        .select("body", "tags")
    )
    given = {"mode": "exactly-once", **options}
    writer = rows.writeStream.format("rocketmq").queryName("copy").options(namesrv=broker.namesrv_addr, topic="Out")
    writer = writer.options(**given).option("checkpointLocation", str(checkpoint))
    read_everything(writer.trigger(**ending_runs.TRIGGER).start())


@pytest.mark.versions
@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
def test_a_stream_writes_and_a_replayed_batch_adds_what_its_mode_allows(
    spark: Any, bolide_broker: Broker, tmp_path: Path, mode: str
) -> None:
    for topic in ("In", "Out"):
        bolide_broker.create_topic(topic, queues=2)
    sent = [b"m-%03d" % number for number in range(100)]
    send(bolide_broker.namesrv_addr, [Message("In", body, tags="t") for body in sent])
    checkpoint = tmp_path / "checkpoint"
    copy(spark, bolide_broker, checkpoint, mode=mode)
    assert bodies(bolide_broker.namesrv_addr, "Out") == sent
    # Killed after the sink's commit and before Spark's: the batch is run again.
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
    for name in (str(last), f".{last}.crc"):
        (commits / name).unlink(missing_ok=True)
    copy(spark, bolide_broker, checkpoint, mode=mode)
    seen = Counter(bodies(bolide_broker.namesrv_addr, "Out"))
    assert sorted(seen) == sent
    twice = sum(1 for count in seen.values() if count > 1)
    assert twice == 0 if mode == "exactly-once" else twice > 0
    ids = {record.body: record.properties for record in records(bolide_broker.namesrv_addr, "Out")}
    assert len(ids) == len(sent)


@pytest.mark.versions
def test_a_failed_job_leaves_nothing_to_see_and_a_named_one_adds_its_rows_once(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    bolide_broker.create_topic("Out")
    options = {"namesrv": bolide_broker.namesrv_addr, "topic": "Out", "mode": "exactly-once"}
    frame = spark.range(0, 40, 1, 2).selectExpr("CAST(id AS STRING) AS body")
    broken = spark.range(0, 40, 1, 2).selectExpr("IF(id = 39, raise_error('broken'), CAST(id AS STRING)) AS body")
    with pytest.raises(Exception, match="broken"):
        broken.write.format("rocketmq").mode("append").options(**options).save()
    assert bodies(bolide_broker.namesrv_addr, "Out") == []
    frame.write.format("rocketmq").mode("append").options(**options).save()
    assert len(bodies(bolide_broker.namesrv_addr, "Out")) == 40
    named = {**options, "commitLog": str(tmp_path / "log"), "jobId": "night"}
    for _ in range(2):
        frame.write.format("rocketmq").mode("append").options(**named).save()
    assert sorted(Counter(bodies(bolide_broker.namesrv_addr, "Out")).values()) == [2] * 40


def for_each(
    spark: Any, broker: Broker, checkpoint: Path, *writes: dict[str, str], columns: tuple[str, ...] = ("body",)
) -> None:
    """Run a query that writes batches of ten rows, each with these options. `%` in a value becomes the batch number."""

    def write(rows: Any, number: int) -> None:
        for options in writes:
            given = {name: value.replace("%", str(number)) for name, value in options.items()}
            writer = rows.selectExpr(*columns).write.format("rocketmq").mode("append")
            writer.options(namesrv=broker.namesrv_addr, **given).save()

    rows = spark.readStream.format("rocketmq").options(namesrv=broker.namesrv_addr, subscribe="In")
    rows = rows.options(startingOffsets="earliest", maxOffsetsPerTrigger=10, **ending_runs.OPTIONS).load()
    writer = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    read_everything(writer.trigger(**ending_runs.TRIGGER).start())


@pytest.mark.versions
@pytest.mark.parametrize("job", ["copy", "copy-%"])
def test_batches_written_in_foreach_batch_are_written_once(
    spark: Any, bolide_broker: Broker, tmp_path: Path, job: str
) -> None:
    for topic in ("In", "Out", "Other"):
        bolide_broker.create_topic(topic, queues=2)
    sent = [b"%02d" % number for number in range(30)]
    send(bolide_broker.namesrv_addr, [Message("In", body) for body in sent])
    once = {"mode": "exactly-once", "commitLog": str(tmp_path / "log")}
    writes = [{"topic": "Out", "jobId": job, **once}, {"topic": "Other", "jobId": f"other-{job}", **once}]
    checkpoint = tmp_path / "checkpoint"
    for _ in range(2):
        for_each(spark, bolide_broker, checkpoint, *writes)
        for topic in ("Out", "Other"):
            assert bodies(bolide_broker.namesrv_addr, topic) == sent
        # Killed after the writes and before Spark's commit, so Spark repeats the batch.
        for name in ("2", ".2.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=True)


def test_a_write_in_foreach_batch_that_could_double_or_lose_rows_is_refused(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    for topic in ("In", "Out", "Other"):
        bolide_broker.create_topic(topic)
    send(bolide_broker.namesrv_addr, [Message("In", b"1")])
    once = {"mode": "exactly-once"}
    with pytest.raises(Exception, match="foreachBatch may repeat this write"):
        for_each(spark, bolide_broker, tmp_path / "one", {"topic": "Out", **once})
    assert bodies(bolide_broker.namesrv_addr, "Out") == []
    once |= {"jobId": "n-%", "commitLog": str(tmp_path / "log")}
    with pytest.raises(Exception, match="has a write with jobId n-0 to topic Out: give each write another jobId"):
        for_each(spark, bolide_broker, tmp_path / "two", {"topic": "Out", **once}, {"topic": "Other", **once})
    assert bodies(bolide_broker.namesrv_addr, "Other") == []


def test_writes_of_a_batch_do_not_replace_dead_letters_of_another(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    for topic in ("In", "Out", "Other"):
        bolide_broker.create_topic(topic, queues=1)
    send(bolide_broker.namesrv_addr, [Message("In", b"%d" % number) for number in range(12)])
    dead = {"deadLetterPath": str(tmp_path / "dead")}
    writes = [{"topic": "Out", **dead}, {"topic": "Other", **dead}]
    for_each(spark, bolide_broker, tmp_path / "checkpoint", *writes, columns=("body", "-1 AS queue_id"))
    counts = {row.topic: row["count"] for row in spark.read.parquet(*dead.values()).groupBy("topic").count().collect()}
    assert counts == {"Out": 12, "Other": 12}


def test_refused_rows_fail_with_their_place_or_go_to_a_table(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    bolide_broker.create_topic("Out")
    frame = spark.range(0, 10, 1, 1).selectExpr("IF(id = 7, '', CAST(id AS STRING)) AS body", "'t' AS tags")
    writer = frame.write.format("rocketmq").mode("append").options(namesrv=bolide_broker.namesrv_addr, topic="Out")
    with pytest.raises(Exception, match="partition 0, row 7, topic Out: its body is empty"):
        writer.save()
    dead = str(tmp_path / "dead")
    writer.option("deadLetterPath", dead).save()
    (row,) = spark.read.parquet(dead).collect()
    assert (row.topic, row.tags, row.row, row.partition) == ("Out", "t", 7, 0)
    assert "its body is empty" in row.reason


@pytest.mark.parametrize(
    ("options", "mode", "text"),
    [
        ({"topic": "Out"}, "overwrite", "a topic cannot be overwritten"),
        ({"topic": "Out"}, None, "cannot be written in the .ErrorIfExists. mode"),
        ({"topic": "Out", "mode": "twice"}, "append", "mode must be at-least-once or exactly-once"),
        ({}, "append", "needs a column topic or"),
    ],
    ids=["overwrite", "no-mode", "wrong-mode", "no-topic"],
)
def test_a_wrong_write_is_one_sentence(spark: Any, options: dict[str, str], mode: str | None, text: str) -> None:
    writer = spark.range(1).selectExpr("'x' AS body").write.format("rocketmq").options(namesrv="127.0.0.1:1", **options)
    with pytest.raises(Exception, match=text):
        (writer.mode(mode) if mode else writer).save()


@pytest.mark.versions
@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
def test_typed_bodies_are_read_with_the_options_of_the_write(
    spark: Any, bolide_broker: Broker, tmp_path: Path, mode: str
) -> None:
    for topic in ("In", "Out"):
        bolide_broker.create_topic(topic, queues=2)
    send(bolide_broker.namesrv_addr, [Message("In", b"%d" % number) for number in range(20)])
    rates = {"type": "map", "values": "double"}
    fields = [{"name": "id", "type": "long"}, {"name": "rates", "type": rates, "default": {}}]
    with registry() as served:
        served.add("out", json.dumps({"type": "record", "name": "Out", "fields": fields}))
        typed = {"body.format": "avro", "body.registry": served.address, "body.subject": "out"}
        given = {"namesrv": bolide_broker.namesrv_addr, "startingOffsets": "earliest", **ending_runs.OPTIONS}
        rows = spark.readStream.format("rocketmq").options(subscribe="In", **given).load()
        structs = rows.selectExpr("struct(CAST(STRING(body) AS BIGINT) AS id, map('a', 0.5D) AS rates) AS body")
        writer = structs.writeStream.format("rocketmq").options(topic="Out", mode=mode, **typed)
        writer = writer.options(namesrv=bolide_broker.namesrv_addr, checkpointLocation=str(tmp_path / "checkpoint"))
        read_everything(writer.trigger(**ending_runs.TRIGGER).start())

        source = spark.read.format("rocketmq").options(namesrv=bolide_broker.namesrv_addr, subscribe="Out")
        found = source.options(columns="id, rates", **typed).load().collect()
        assert sorted(row.id for row in found) == list(range(20))
        assert all(row.rates == {"a": 0.5} for row in found)

        wrong = spark.range(3).selectExpr("struct(IF(id = 1, NULL, id) AS id) AS body")
        batch = wrong.write.format("rocketmq").mode("append").options(topic="Out", mode=mode, **typed)
        batch = batch.options(namesrv=bolide_broker.namesrv_addr, deadLetterPath=str(tmp_path / "dead"))
        batch.save()
        (row,) = spark.read.parquet(str(tmp_path / "dead")).collect()
        assert "its body cannot be encoded" in row.reason
        assert bytes(row.body) == b'{"id": null}'
        found = source.options(columns="id, rates", **typed).load().collect()
        assert sorted(row.id for row in found if not row.rates) == [0, 2]


@pytest.mark.versions
@pytest.mark.parametrize("zone", ["GMT+8", "America/Santiago"])
def test_times_in_typed_bodies_do_not_depend_on_the_zone_of_the_session(
    spark: Any, bolide_broker: Broker, zone: str
) -> None:
    bolide_broker.create_topic("Out")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        at = "timestamp_millis(1793000000123)"
        rows = spark.range(1).selectExpr(f"struct({at} AS at, array({at}) AS all) AS body")
        typed = {"namesrv": bolide_broker.namesrv_addr, "topic": "Out", "body.format": "json"}
        rows.write.format("rocketmq").mode("append").options(**typed).save()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    (body,) = bodies(bolide_broker.namesrv_addr, "Out")
    text = "2026-10-26T07:33:20.123000Z"
    assert json.loads(body) == {"at": text, "all": [text]}


def test_the_program_of_the_page(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    from tests.page_programs import program

    for topic in ("Orders", "Paid"):
        bolide_broker.create_topic(topic)
    paid = [Message("Orders", b"tea", tags="paid", keys="o1"), Message("Orders", b"rum", tags="open", keys="o2")]
    send(bolide_broker.namesrv_addr, paid)
    main = program("spark_sink").main
    for _ in range(2):
        main(bolide_broker.namesrv_addr, str(tmp_path / "checkpoint"))
    assert bodies(bolide_broker.namesrv_addr, "Paid") == [b"tea"]
