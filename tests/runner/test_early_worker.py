"""The Python of Spark's workers calls back before PySpark is imported."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from proof.kit.waiting import PROCESS_PATIENCE
from tests.runner.early_worker import python_for_workers

STUB = {
    "__init__": "import sys\nsys.stdin.readline()  # an import that takes long\n",
    "util": "",
    "runner": "from pyspark import util\nfile = util.local_connect_and_auth(1, '')[0]\nfile.write(b'!')\nfile.flush()",
}


def test_worker_calls_back_before_the_import(tmp_path: Path) -> None:
    (tmp_path / "pyspark").mkdir()
    for name, text in STUB.items():
        (tmp_path / "pyspark" / f"{name}.py").write_text(text)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PROCESS_PATIENCE)
        called = {"PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]), "PYTHON_WORKER_FACTORY_SECRET": "secret"}
        words = [python_for_workers(str(tmp_path)), "-m", "pyspark.runner"]
        environment = {**os.environ, **called, "PYTHONPATH": str(tmp_path)}
        with subprocess.Popen(words, stdin=subprocess.PIPE, env=environment) as process:
            connection, _ = server.accept()
            with connection, connection.makefile("rwb") as stream:
                assert stream.read(10) == b"\0\0\0\6secret"
                stream.write(b"\0\0\0\2ok")
                stream.flush()
                assert process.stdin is not None
                process.stdin.write(b"\n")
                process.stdin.flush()
                assert stream.read(1) == b"!"
            assert process.wait(PROCESS_PATIENCE) == 0


def test_a_worker_that_does_not_call_back_is_this_python(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_WORKER_FACTORY_PORT"}
    words = [python_for_workers(str(tmp_path)), "-c", "print('here')"]
    assert subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True).stdout == b"here\n"
