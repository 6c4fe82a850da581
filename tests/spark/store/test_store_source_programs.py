"""The programs of the pages about stores run, over stores that Java wrote."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.golden.stores import golden_store
from tests.page_programs import program

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_spark_store_stream(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = golden_store("5.5.0-clean")
    program("spark_store_stream").main(str(golden.root), str(tmp_path))
    rest = sum(entry["topic"] in ("RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX") for entry in golden.log())
    assert capsys.readouterr().out == f"{len(golden.log()) - rest} messages\n"


def test_spark_audit(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    golden = golden_store("5.5.0-clean")
    shutil.copytree(golden.root, tmp_path / "store")
    shutil.rmtree(tmp_path / "store" / "index")
    program("spark_audit").main(str(tmp_path / "store"), golden.shape)
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("index 0 the index ends at the record at -1")
    assert shown[-1] == "0 findings are left"
