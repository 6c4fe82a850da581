"""The program of the page about messages that cannot be read runs, and a job with the same options continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bolide.spark.errors import OptionError
from bolide.spark.failures import JobFailed
from bolide.spark.jobs.archive import archive
from bolide.spark.jobs.mirror import mirror
from bolide.spark.jobs.replay import replay
from bolide.testing.broker import Broker
from tests.page_programs import program
from tests.spark.source.bad import PLAIN, ZLIB, put

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_the_program_of_the_page(
    spark: Any, bolide_broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(bolide_broker, [(b"before", 0), (b"plain", ZLIB), (b"after", 0)], topic="Orders")
    program("spark_bad_records").main(bolide_broker.namesrv_addr, str(tmp_path / "aside"))
    assert capsys.readouterr().out == f"Orders offset 1: {PLAIN}\n2 messages read\n1 put aside\n"


def test_jobs_say_where_and_pass_over_what_they_are_told_to(spark: Any, bolide_broker: Broker, tmp_path: Path) -> None:
    put(bolide_broker, [(b"before", 0), (b"plain", ZLIB), (b"after", 0)], 10**17)
    options = {"namesrv": bolide_broker.namesrv_addr, "subscribe": "T"}
    out = str(tmp_path / "archive")
    with pytest.raises(JobFailed, match=f"^the body of T@broker-a:0 offset 1 cannot be read: {PLAIN[:20]}"):
        archive(spark, out, options)
    assert archive(spark, out, {**options, "badRecords": "column"}).messages == 3
    bolide_broker.create_topic("Again")
    sent = replay(spark, out, {"namesrv": bolide_broker.namesrv_addr}, topic="Again", checkpoint=str(tmp_path / "mark"))
    assert sent.messages == 2
    bolide_broker.create_topic("To-T")
    target = {"namesrv": bolide_broker.namesrv_addr}
    mark = str(tmp_path / "mirror")
    with pytest.raises(OptionError, match="a mirror cannot send a message without its body: set badRecords to drop"):
        mirror(spark, {**options, "badRecords": "column"}, target, checkpoint=mark, prefix="To-")
    done = mirror(spark, {**options, "badRecords": "drop"}, target, checkpoint=mark, prefix="To-")
    assert done.messages == 2
