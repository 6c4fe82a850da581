"""The parent of Python workers beside a JVM that closes the socket of a worker: no trace for the user."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from bolide.spark.session import daemon, session


def test_local_sessions_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert session._settings("local[1]", {}, tmp_path)["spark.python.daemon.module"] == daemon.__name__


def test_a_worker_that_nobody_listens_to_ends_without_a_word() -> None:
    with tempfile.TemporaryDirectory(prefix="b") as folder:
        # As Spark's JVM starts it.
        set_by_spark = {
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": folder,
            "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE": "1",
            "SPARK_REUSE_WORKER": "1",
        }
        command = [sys.executable, "-m", "bolide.spark.session.daemon", "pyspark.worker"]
        with subprocess.Popen(
            command,
            env={**os.environ, **set_by_spark},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as parent:
            assert parent.stdin is not None and parent.stdout is not None and parent.stderr is not None
            length = int.from_bytes(parent.stdout.read(4), "big")
            address = Path(parent.stdout.read(length).decode())
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as task:
                task.connect(str(address))
                ended = os.pidfd_open(int.from_bytes(task.recv(4), "big"))
            # The worker reads the end of its socket, writes that this is an error, and nobody is there to read it.
            wait_for(ended)
            parent.stdin.close()
            assert parent.stderr.read() == b""


def wait_for(process: int) -> None:
    """Wait until the process of this descriptor has ended."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(60_000)
    os.close(process)
