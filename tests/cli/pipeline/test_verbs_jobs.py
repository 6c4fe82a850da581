"""The verbs of `bolide pipeline` over topics: what is wrong with them is one sentence, and an exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bolide.cli.pipeline.verbs import app
from bolide.testing.broker import Broker
from proof.kit import children

LOCAL = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}


def start(*arguments: str) -> subprocess.Popen[str]:
    return children.start(
        [sys.executable, "-m", "bolide.cli", "pipeline", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=LOCAL,
    )  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.xdist_group("spark-processes")
def test_a_topic_that_is_not_there_is_one_sentence(bolide_broker: Broker, tmp_path: Path) -> None:
    where = ["--out", str(tmp_path / "out"), "--namesrv", bolide_broker.namesrv_addr]
    exporting = start("export", "Nothing", *where)
    told, errors = exporting.communicate(timeout=600)
    assert (exporting.returncode, told) == (1, "")
    assert "bolide: topic Nothing has no route: create it, check the name, or see if its broker runs" in errors
    assert "Traceback" not in errors
    assert "at org.apache" not in errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["archive", "--out", "x"], "say which topics: names separated by commas, or --pattern"),
        (["archive", "T", "--pattern", "T.*", "--out", "x"], "say which topics: names separated by commas"),
        (["archive", "T", "--out", "x", "--option", "alone"], "--option alone is not of the form NAME=VALUE"),
        (["stats", "T", "--conf", "=1"], "--conf =1 is not of the form NAME=VALUE"),
        (["mirror", "T", "--to", "h:1"], "give a --checkpoint: a folder for the mirror's progress"),
        (["mirror", "T", "--to", "h:1", "--only-offsets"], "--only-offsets needs --groups"),
        (["trace", "--json", "--out", "x"], "--json prints rows and --out writes a file"),
    ],
    ids=["no-topic", "both", "option", "conf", "no-checkpoint", "no-groups", "json-out"],
)
def test_wrong_usage_starts_no_spark(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert text in result.output
