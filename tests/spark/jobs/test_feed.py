"""Topics to sinks: each message is handed over once, by whichever sink, and the next run hands over what came since."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.errors import ConfigError
from bolide.spark.failures import JobFailed
from bolide.spark.jobs.feed import feed
from bolide.testing.broker import Broker
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_sinks_are_handed_what_topics_hold_and_then_what_came_since(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % number) for number in range(50)])
    files, mark = tmp_path / "files", str(tmp_path / "mark")
    sink = {"path": str(files)}
    assert feed(spark, "parquet", options, sink, checkpoint=mark).messages == 50
    assert feed(spark, "parquet", options, sink, checkpoint=mark).messages == 0
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % number) for number in range(50, 60)])
    assert feed(spark, "parquet", options, sink, checkpoint=mark).messages == 10
    bodies = [bytes(row.body) for row in spark.read.parquet(str(files)).select("body").collect()]
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(60)]
    with pytest.raises(JobFailed, match="the option colour is unknown to this sink"):
        feed(spark, "json", options, {**sink, "colour": "red"}, checkpoint=str(tmp_path / "other"))


def test_an_unknown_sink_is_refused_before_spark_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the sink 'kafka' is unknown: use one of parquet, json, rocketmq"):
        feed(None, "kafka", {}, {}, checkpoint=str(tmp_path))  # type: ignore[arg-type] # it is never asked
