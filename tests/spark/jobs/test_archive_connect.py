"""An archive and its view over Spark Connect, where no JVM of this process can be asked for anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.testing.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2400)]
ROOT = Path(__file__).parents[3]


def test_an_archive_and_its_view(bolide_broker: Broker, tmp_path: Path) -> None:
    bolide_broker.create_topic("T")
    # SPARK_TESTING has the local server take a free port.
    environment = {**os.environ, "SPARK_TESTING": "1", "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/spark/jobs/connect_program.py"), bolide_broker.namesrv_addr,
         str(tmp_path / "archive")],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    steps = json.loads(done.stdout.splitlines()[-1])
    assert steps == {"connect": True, "too early": "refused", "archived": 10, "view": {"True": 10, "False": 3}}
