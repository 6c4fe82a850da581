"""`bolide pipeline feed`, as a process of its own, with a sink that a package adds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bolide.cli.pipeline.verbs import app
from bolide.client import Message
from bolide.testing.broker import Broker
from tests.client.patient_blocking import Producer
from tests.plugin_wheel import install_plugin


@pytest.mark.spark
@pytest.mark.timeout(1000)
@pytest.mark.xdist_group("spark-processes")
def test_a_sink_of_a_package_is_handed_every_message(bolide_broker: Broker, tmp_path: Path) -> None:
    with Producer("p", bolide_broker.namesrv_addr) as producer:
        for number in range(40):
            producer.send(Message("Flights", b"%d" % number))
    tally = tmp_path / "tally"
    tally.mkdir()
    command = [sys.executable, "-m", "bolide.cli", "pipeline", "feed", "Flights", "-n", bolide_broker.namesrv_addr]
    command += ["--sink", "tally", "--set", f"folder={tally}", "--checkpoint", str(tmp_path / "mark"), "--json"]
    env = {**os.environ, "PYTHONPATH": str(install_plugin(tmp_path)), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == 40
    counts = [file.read_text().split() for file in tally.iterdir()]
    assert {topic for topic, _ in counts} == {"Flights"}
    assert sum(int(count) for _, count in counts) == 40


def test_an_unknown_sink_starts_no_spark(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["feed", "T", "--sink", "kafka", "--checkpoint", str(tmp_path)])
    assert result.exit_code == 2
    assert "the sink 'kafka' is unknown: use one of parquet, json, rocketmq" in result.output
