"""`bolide pipeline archive` and `stats`: what they print, their exit codes, Ctrl-C and resuming."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bolide.client import Message
from bolide.testing.broker import Broker
from proof.kit import children
from proof.kit.waiting import wait_until
from tests.spark.in_session import verb
from tests.spark.produce import send

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


@pytest.mark.versions
@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_an_archive_is_interrupted_and_goes_on(
    spark: Any, bolide_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "archive"
    where = ["archive", "T", "--out", str(out), "--namesrv", bolide_broker.namesrv_addr]
    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n, tags="A", keys=["<k>"]) for n in range(50)])
    following = children.start(
        [sys.executable, "-m", "bolide.cli", "pipeline", *where, "--follow", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    try:
        # The sink's log names a batch when its files are whole.
        begun = out / "_spark_metadata" / "0"
        wait_until(lambda: following.poll() is not None or begun.exists(), "the first batch is there", 600)
    finally:
        following.send_signal(signal.SIGINT)
        told, errors = following.communicate(timeout=400)
    assert following.returncode == 130, errors
    first = json.loads(told)
    assert first["interrupted"]
    assert first["messages"] in (0, 50)  # a batch is counted when Spark reports it, a moment after it is there
    assert "the same command resumes it" in errors
    assert "Traceback" not in errors

    send(bolide_broker.namesrv_addr, [Message("T", b"%d" % n) for n in range(50, 57)])
    rest = verb(monkeypatch, *where, "--and-read-back", "--json")
    assert rest.exit_code == 0, rest.output
    assert json.loads(rest.stdout) == [{"topic": "T", "archived": 57, "live": 0, "messages": 57}]

    page = tmp_path / "page.html"
    counted = verb(monkeypatch, "stats", "--archive", str(out), "--html", str(page))
    assert counted.exit_code == 0, counted.output
    assert "57" in counted.stdout
    assert "<svg" in page.read_text("utf-8")
    assert "&lt;k&gt;" in page.read_text("utf-8")
