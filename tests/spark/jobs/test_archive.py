"""Archives: each message once, whatever was killed when, and one view with the live log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.cli.pipeline.run import batch_source
from bolide.client import Message
from bolide.spark.errors import DataLost, OptionError
from bolide.spark.failures import JobFailed
from bolide.spark.jobs.archive import archive, create_table, read_back
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Admin
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def bodies(rows: Any) -> list[str]:
    return sorted(bytes(row.body).decode() for row in rows.collect())


@pytest.mark.versions
def test_each_run_appends_what_is_new_and_one_view_spans_archive_and_log(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    out = str(tmp_path / "archive")
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T,U"}
    options["startingOffsetsByTimestamp"] = '{"T": 0, "U": 0}'  # of the archive's first run, and no other's
    send(bolide_broker.namesrv_addr, [Message("T", b"t%02d" % n, keys=["k"], tags="A") for n in range(30)])
    send(bolide_broker.namesrv_addr, [Message("U", b"u%02d" % n) for n in range(5)])
    progress: list[Any] = []
    with pytest.raises(OptionError, match="no finished batch"):
        read_back(spark, out, options)
    first = archive(spark, out, options | {"maxOffsetsPerTrigger": "10"}, progress=progress.append)
    assert (first.messages, first.interrupted) == (35, False)
    assert first.batches >= 4
    assert (progress[-1].done, progress[-1].total) == (35, 35)
    send(bolide_broker.namesrv_addr, [Message("T", b"t%02d" % n) for n in range(30, 40)])
    assert archive(spark, out, options).messages == 10
    assert archive(spark, out, options).messages == 0
    wanted = sorted([f"t{n:02d}" for n in range(40)] + [f"u{n:02d}" for n in range(5)])
    stored = spark.read.parquet(out)
    assert bodies(stored) == wanted
    assert batch_source("", " U , V", None, out, [])(spark).count() == 5
    assert sorted(path.name for path in Path(out).glob("topic=*")) == ["topic=T", "topic=U"]
    assert stored.where("date = date(from_unixtime(unix_seconds(store_timestamp)))").count() == 45  # tests run in UTC

    send(bolide_broker.namesrv_addr, [Message("T", b"t%02d" % n) for n in range(40, 43)])
    view = read_back(spark, out, options)
    assert bodies(view) == sorted([*wanted, "t40", "t41", "t42"])
    assert bodies(view.where("NOT archived")) == ["t40", "t41", "t42"]

    # A crash after the sink named the batch and before the query's log did: the batch is there, and runs again.
    newest = max(int(p.name) for p in (Path(out) / "_checkpoint" / "commits").iterdir() if p.name.isdigit())
    (Path(out) / "_checkpoint" / "commits" / str(newest)).unlink()
    (Path(out) / "_checkpoint" / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    assert bodies(read_back(spark, out, options)) == sorted([*wanted, "t40", "t41", "t42"])
    archive(spark, out, options)
    assert bodies(spark.read.parquet(out)) == sorted([*wanted, "t40", "t41", "t42"])


def test_a_topic_made_anew_is_not_joined_to_what_was_archived(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    out = str(tmp_path / "archive")
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, [Message("T", b"old%d" % n) for n in range(4)])
    archive(spark, out, options)
    with Admin(bolide_broker.namesrv_addr) as admin:
        admin.delete_topic("T")
    bolide_broker.create_topic("T", queues=1)
    send(bolide_broker.namesrv_addr, [Message("T", b"new%d" % n) for n in range(6)])
    with pytest.raises(DataLost, match="T@broker-a:0 was archived up to offset 4 and has another message at offset 3"):
        read_back(spark, out, options)
    with pytest.raises(JobFailed, match="T@broker-a:0 was read up to offset 4 and has another message at offset 3 now"):
        archive(spark, out, options)
    wanted = sorted([f"old{n}" for n in range(4)] + [f"new{n}" for n in range(6)])
    options["failOnDataLoss"] = "false"
    assert bodies(read_back(spark, out, options)) == wanted
    assert archive(spark, out, options).messages == 6
    assert bodies(spark.read.parquet(out)) == wanted


@pytest.mark.versions
def test_a_table_is_created_once_with_the_columns_of_the_archive(spark: Any) -> None:
    messages = spark.range(0).selectExpr("'T' AS topic", "current_date() AS date", "array(id) AS keys")
    for _ in range(2):
        create_table(spark, messages, "archive_of_messages", "parquet")
    made = spark.table("archive_of_messages")
    assert sorted(made.dtypes) == [("date", "date"), ("keys", "array<bigint>"), ("topic", "string")]
    columns = spark.catalog.listColumns("archive_of_messages")
    assert {column.name for column in columns if column.isPartition} == {"topic", "date"}
    spark.sql("DROP TABLE archive_of_messages")


def test_unsupported_format_is_one_error(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    bolide_broker.create_topic("T")
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    out = str(tmp_path / "archive")
    with pytest.raises(OptionError, match=r"this Spark has no delta: start it with its package"):
        archive(spark, out, options, table_format="delta")
    with pytest.raises(OptionError, match="name a folder for it"):
        archive(spark, "cat.db.table", options, table_format="iceberg")
    with pytest.raises(OptionError, match="not as orc"):
        archive(spark, out, options, table_format="orc")
