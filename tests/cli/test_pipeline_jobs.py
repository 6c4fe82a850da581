"""The verbs of `bolide pipeline` over topics, as processes: what they print, their exit codes, Ctrl-C and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bolide.cli.pipeline import app
from bolide.client import Message
from bolide.testing.broker import Broker
from tests import children
from tests.spark.produce import send

LOCAL = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}


def until(condition: Callable[[], bool], what: str, seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.1)


def start(*arguments: str) -> subprocess.Popen[str]:
    return children.start(
        [sys.executable, "-m", "bolide.cli", "pipeline", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=LOCAL,
    )  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.xdist_group("spark-processes")
def test_an_archive_is_interrupted_and_goes_on(bolide_broker: Broker, tmp_path: Path) -> None:
    out = tmp_path / "archive"
    where = ["archive", "T", "--out", str(out), "--namesrv", bolide_broker.namesrv_addr]
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n, tags="A", keys=["<k>"]) for n in range(50)])
    following = start(*where, "--follow", "--json")
    try:
        # The sink's log names a batch when its files are whole.
        until(lambda: following.poll() is not None or (out / "_spark_metadata" / "0").exists(), "the first batch")
    finally:
        following.send_signal(signal.SIGINT)
        told, errors = following.communicate(timeout=400)
    assert following.returncode == 130, errors
    first = json.loads(told)
    assert first["interrupted"]
    assert first["messages"] in (0, 50)  # a batch is counted when Spark reports it, a moment after it is there
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors

    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n) for n in range(50, 57)])
    rest = start(*where, "--and-read-back", "--json")
    told, errors = rest.communicate(timeout=600)
    assert rest.returncode == 0, errors
    assert json.loads(told) == [{"topic": "T", "archived": 57, "live": 0, "messages": 57}]

    page = tmp_path / "page.html"
    counting = start("stats", "--archive", str(out), "--html", str(page))
    told, errors = counting.communicate(timeout=600)
    assert counting.returncode == 0, errors
    assert "57" in told
    assert "<svg" in page.read_text("utf-8")
    assert "&lt;k&gt;" in page.read_text("utf-8")


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
        (["mirror", "T", "--to", "h:1"], "name a --checkpoint: a folder that remembers how far the mirror came"),
        (["mirror", "T", "--to", "h:1", "--only-offsets"], "--only-offsets needs --groups"),
        (["trace", "--json", "--out", "x"], "--json prints rows, and with --out none are printed"),
    ],
    ids=["no-topic", "both", "option", "conf", "no-checkpoint", "no-groups", "json-out"],
)
def test_wrong_usage_starts_no_spark(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert text in result.output
