"""`bolide pipeline dispatch`, as a process of its own: a session of the tests must not be stopped by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bolide.cli.pipeline.verbs import app
from tests.golden.stores import golden_store


@pytest.mark.spark
@pytest.mark.timeout(1000)
@pytest.mark.xdist_group("spark-processes")
def test_a_store_of_4_9_is_dispatched_from_its_log_and_broker_conf(tmp_path: Path) -> None:
    """As rebuilt row by row, and with no temporary file left."""
    golden = golden_store("4.9.7-clean")
    shutil.copytree(golden.root / "commitlog", tmp_path / "store" / "commitlog")
    conf = tmp_path / "broker.conf"
    conf.write_text("".join(f"{key}={value}\n" for key, value in golden.manifest["brokerConf"].items()), "utf-8")
    command = [sys.executable, "-m", "bolide.cli", "pipeline", "dispatch", str(tmp_path / "store")]
    command += ["--out", str(tmp_path / "out"), "--config", str(conf), "--store-version", "4.9", "--json"]
    done = run_alone(command)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    report = json.loads(done.stdout)
    assert (report["records"], report["bad"], report["skipped"]) == (len(golden.log()), [], [])
    assert "reading the log: " in done.stderr
    assert "writing files: " in done.stderr
    assert set(report["stages"]) == {"reading the log", "writing files"}
    index = [path.read_bytes() for path in sorted((tmp_path / "out" / "index").iterdir())]
    assert index == [data for _, data in golden.index_files()]
    for path in (golden.root / "consumequeue").rglob("*/*/*"):
        made = tmp_path / "out" / path.relative_to(golden.root)
        assert made.read_bytes() == path.read_bytes()


def run_alone(command: list[str]) -> subprocess.CompletedProcess[str]:
    """A verb as a user's process, whose temporary folder is empty at its end."""
    with tempfile.TemporaryDirectory(prefix="b") as temporary:
        env = {name: value for name, value in os.environ.items() if name not in ("SPARK_SUBMIT_OPTS", "SPARK_HOME")}
        env |= {"SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": temporary}
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=env)
        assert os.listdir(temporary) == []
    return done


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "say where the result goes: either --out DIR or --in-place"),
        (["--out", "there", "--in-place"], "say where the result goes: either --out DIR or --in-place"),
        (["--in-place"], "is not a store: there is no CommitLog file"),
        (["--in-place", "--store-version", "3"], "storeVersion = '3' is not allowed: it must be 5.5 or 4.9"),
        (["--follow", "--in-place"], "--follow needs --out DIR: the files of the store itself belong to its broker"),
        (["--update", "--in-place"], "--update needs --out DIR: the files of the store itself belong to its broker"),
    ],
)
def test_wrong_usage_starts_no_spark(tmp_path: Path, arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, ["dispatch", str(tmp_path), *arguments])
    assert result.exit_code == 2
    assert text in result.output


def test_verify_of_no_store_starts_no_spark(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["verify", str(tmp_path)])
    assert result.exit_code == 2
    assert "is not a store: there is no CommitLog file" in result.output
