"""An archive and its view over Spark Connect, in a process that has no JVM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bolide.testing.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]
PROGRAM = Path(__file__).with_name("connect_program.py")


@pytest.mark.versions
def test_an_archive_and_its_view(connect: str, bolide_broker: Broker, tmp_path: Path) -> None:
    bolide_broker.create_topic("T")
    command = [sys.executable, str(PROGRAM), connect, bolide_broker.namesrv_addr, str(tmp_path / "archive")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    steps = json.loads(done.stdout.splitlines()[-1])
    assert steps == {
        "connect": True,
        "JVM": False,
        "too early": "refused",
        "archived": 10,
        "view": {"True": 10, "False": 3},
    }
