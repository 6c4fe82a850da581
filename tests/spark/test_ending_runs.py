"""Runs that read the messages that existed at their start, in a real session of any Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.spark.errors import OptionError
from bolide.spark.source.source_options import read_options
from bolide.testing.broker import Broker
from tests.golden.stores import golden_store
from tests.page_programs import program
from tests.spark.produce import send


def test_a_batch_read_has_no_such_option() -> None:
    with pytest.raises(OptionError, match="option untilNow is for streams: remove it from a batch read"):
        read_options({"namesrv": "h:1", "subscribe": "T", "untilNow": "true"})


@pytest.mark.spark
@pytest.mark.versions
@pytest.mark.xdist_group("spark")
def test_the_program_of_the_page_reads_everything_after_an_interrupted_batch(
    spark: Any, bolide_broker: Broker, tmp_path: Path
) -> None:
    def run() -> tuple[list[str], int]:
        program("spark_until_now").main(bolide_broker.namesrv_addr, str(tmp_path))
        rows = spark.read.parquet(str(tmp_path / "messages")).collect()
        batches = [path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdecimal()]
        return sorted(bytes(row.body).decode() for row in rows), len(batches)

    bodies = [f"{number:04d}" for number in range(1200)]
    bolide_broker.create_topic("Orders")
    send(bolide_broker.namesrv_addr, [Message("Orders", body.encode()) for body in bodies[:1100]])
    assert run() == (bodies[:1100], 3)
    commits = tmp_path / "checkpoint" / "commits"
    (commits / "2").unlink()
    (commits / ".2.crc").unlink(missing_ok=True)
    send(bolide_broker.namesrv_addr, [Message("Orders", body.encode()) for body in bodies[1100:]])
    assert run() == (bodies, 4)


@pytest.mark.spark
@pytest.mark.versions
@pytest.mark.xdist_group("spark")
def test_a_stream_of_a_store_obeys_its_limit(spark: Any, tmp_path: Path) -> None:
    golden = golden_store("5.5.0-clean")
    log = spark.readStream.format("rocketmq-store").options(untilNow=True, maxBytesPerTrigger=1 << 20)
    rows = log.load(str(golden.root)).select("physical_offset")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.start(str(tmp_path / "rows"))
    query.processAllAvailable()
    query.stop()
    found = [row.physical_offset for row in spark.read.parquet(str(tmp_path / "rows")).collect()]
    assert sorted(found) == [entry["physicalOffset"] for entry in golden.log()]
    assert len([path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name.isdecimal()]) > 1
