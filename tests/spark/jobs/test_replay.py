"""Replays: which rows, in which order, how fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.jobs.archive import archive
from bolide.spark.jobs.replay import as_replay, paced, replay
from bolide.testing.broker import Broker
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_an_archive_is_sent_again_queue_by_queue(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    send(bolide_broker.namesrv_addr, [Message("T", b"%03d" % n, tags="AB"[n % 2], keys=[f"k{n}"]) for n in range(200)])
    out = str(tmp_path / "archive")
    archive(spark, out, namesrv | {"subscribe": "T"} | {"maxOffsetsPerTrigger": "40"})
    bolide_broker.create_topic("Again", queues=3)
    mark = str(tmp_path / "mark")
    given: dict[str, Any] = {"checkpoint": mark, "where": "tags = 'A'", "topic": "Again", "original_time": True}
    progress: list[Any] = []
    assert replay(spark, out, namesrv, **given, progress=progress.append).messages == 100
    assert (progress[-1].done, progress[-1].total) == (100, 100), "what is sent, not what is looked at"
    assert replay(spark, out, namesrv, **given).messages == 0
    read = spark.read.format("rocketmq").options(**namesrv)
    old = {bytes(row.body): row for row in read.load("T").where("tags = 'A'").collect()}
    new = read.load("Again").collect()
    assert sorted(bytes(row.body) for row in new) == sorted(old)
    assert all(row.born_timestamp == old[bytes(row.body)].born_timestamp for row in new)
    assert all(row["keys"] == old[bytes(row.body)]["keys"] for row in new)
    by_old_queue: dict[int, list[Any]] = {}
    for row in sorted(new, key=lambda row: (row.queue_id, row.queue_offset)):
        by_old_queue.setdefault(old[bytes(row.body)].queue_id, []).append(row)
    for rows in by_old_queue.values():
        assert len({row.queue_id for row in rows}) == 1
        offsets = [old[bytes(row.body)].queue_offset for row in rows]
        assert offsets == sorted(offsets)
    once = namesrv | {"mode": "exactly-once"}
    bolide_broker.create_topic("Once")
    for _ in range(2):
        replay(spark, out, once, checkpoint=str(tmp_path / "once"), topic="Once")
        assert read.load("Once").count() == 200
        # A crash before the query's log knew of its last batch: the batch is sent again, and adds nothing.
        newest = max(int(path.name) for path in (tmp_path / "once" / "commits").iterdir() if path.name.isdigit())
        (tmp_path / "once" / "commits" / str(newest)).unlink()
        (tmp_path / "once" / "commits" / f".{newest}.crc").unlink(missing_ok=True)
    rated = replay(spark, out, namesrv, checkpoint=str(tmp_path / "rated"), topic="Again", rate=100_000)
    assert rated.messages == 200


def test_each_run_of_an_exact_replay_sends_its_rows(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    bolide_broker.create_topic("Once")
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    out, mark, sent = str(tmp_path / "archive"), str(tmp_path / "mark"), 0
    for more in (60, 20):
        send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n) for n in range(sent, sent + more)])
        sent += more
        archive(spark, out, namesrv | {"subscribe": "T"})
        replay(spark, out, namesrv | {"mode": "exactly-once"}, checkpoint=mark, topic="Once")
        again = spark.read.format("rocketmq").options(**namesrv).load("Once").collect()
        assert sorted(int(row.body) for row in again) == list(range(sent))


def test_a_batch_of_rows_is_sent_as_it_is(spark: Any, bolide_broker: Broker) -> None:
    namesrv = {"namesrv": bolide_broker.namesrv_addr}
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n) for n in range(9)])
    bolide_broker.create_topic("Again")
    read = spark.read.format("rocketmq").options(**namesrv)
    as_replay(read.load("T"), topic="Again").write.format("rocketmq").mode("append").options(**namesrv).save()
    assert read.load("Again").count() == 9
    with pytest.raises(OptionError, match="needs all columns of the rocketmq source: add column broker"):
        as_replay(read.load("T").drop("broker"))


def test_a_rate_is_kept_over_batches_of_any_size() -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        assert seconds > 0
        now += seconds

    batches = [pa.RecordBatch.from_pydict({"n": list(range(size))}) for size in (250, 1, 0, 749)]
    passed = []
    for few in paced(iter(batches), 100, lambda: now, sleep):
        passed.append((now, few.num_rows))
    assert sum(count for _, count in passed) == 1000
    done = 0
    for at, count in passed:
        assert count <= 10
        assert done <= at * 100 + 1e-6  # what went before this slice kept the rate
        done += count
    assert now == pytest.approx(9.9, abs=0.11)
